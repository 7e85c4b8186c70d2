// SPDX-License-Identifier: GPL-2.0-or-later
//! Whatever the order of packets, the counts add up to their number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skblab_traffic::sequence::Tracker;

fuzz_target!(|packets: (Option<u32>, Vec<(u32, u16)>)| {
    let (expect, packets) = packets;
    let mut tracker = Tracker::new(expect);
    for &(sequence, flow) in &packets {
        tracker.observe(sequence, flow);
    }
    let counts = tracker.counts();
    let total = counts.distinct + counts.duplicates + counts.too_old + counts.beyond;
    assert_eq!(total, packets.len() as u64);
    assert!(counts.reordered <= counts.distinct);
    assert!(counts.reordered_in_flow <= counts.reordered);
    assert!(tracker.lost() <= 1 << 32);
});
