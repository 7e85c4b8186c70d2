// SPDX-License-Identifier: GPL-2.0-or-later
//! Whatever the order of packets, each is told as one who remembers all of them would tell it.
#![no_main]

use std::collections::{HashMap, HashSet};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use skblab_traffic::sequence::{Tracker, Verdict, WINDOW};

/// Where the next packet is: near the one before, or at the window's other end, or anywhere.
#[derive(Arbitrary, Debug)]
enum Step {
    Near(i16),
    Far(i8),
    To(u64),
}

fuzz_target!(|input: (Option<u64>, Vec<(Step, u16)>)| {
    let (expect, steps) = input;
    let mut tracker = Tracker::new(expect);
    let mut known = HashSet::new();
    let mut flows: HashMap<u16, u64> = HashMap::new();
    let mut highest: Option<u64> = None;
    let (mut sequence, mut reordered, mut reordered_in_flow) = (0_u64, 0, 0);
    for (step, flow) in &steps {
        sequence = match *step {
            Step::Near(by) => sequence.wrapping_add_signed(by.into()),
            Step::Far(by) => sequence.wrapping_add(WINDOW).wrapping_add_signed(by.into()),
            Step::To(number) => number,
        };
        let verdict = tracker.observe(sequence, *flow);
        let expected = if expect.is_some_and(|expect| sequence >= expect) {
            Verdict::Beyond
        } else if highest
            .is_some_and(|highest| sequence.checked_add(WINDOW).is_some_and(|end| end <= highest))
        {
            Verdict::TooOld
        } else if known.insert(sequence) {
            Verdict::New
        } else {
            Verdict::Duplicate
        };
        assert_eq!(verdict, expected, "{sequence} of flow {flow}");
        if verdict == Verdict::New {
            reordered += u64::from(highest.is_some_and(|highest| sequence < highest));
            highest = highest.max(Some(sequence));
            let last = flows.entry(*flow).or_insert(sequence);
            reordered_in_flow += u64::from(sequence < *last);
            *last = sequence.max(*last);
        }
    }
    let counts = tracker.counts();
    let total = counts.distinct + counts.duplicates + counts.too_old + counts.beyond;
    assert_eq!(total, steps.len() as u64);
    assert_eq!(counts.distinct, known.len() as u64);
    assert_eq!((counts.reordered, counts.reordered_in_flow), (reordered, reordered_in_flow));
    assert_eq!(tracker.flows() as usize, flows.len());
    let range = expect.unwrap_or(highest.map_or(0, |highest| highest.saturating_add(1)));
    assert_eq!(tracker.lost(), range.saturating_sub(counts.distinct));
    assert_eq!(tracker.complete(), expect.is_some() && tracker.lost() == 0);
});
