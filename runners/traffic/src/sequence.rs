// SPDX-License-Identifier: GPL-2.0-or-later
//! Which packets are new, repeated or reordered, told in fixed memory.
//!
//! A window of [`WINDOW`] sequence numbers up to the highest seen is kept as bits. A packet older
//! than that cannot be told new from repeated: it is counted as too old, never guessed.

/// Sequence numbers remembered behind the highest one: 512 KiB of bits.
pub const WINDOW: u64 = 1 << 22;

const WORD: u64 = 64;
const FLOWS: usize = 1 << 16;

/// What one packet turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Seen for the first time.
    New,
    /// Seen before.
    Duplicate,
    /// Behind the window.
    TooOld,
    /// At or above the number of packets expected.
    Beyond,
}

/// Counts over all packets observed; their sum is the number of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets seen for the first time.
    pub distinct: u64,
    /// Packets seen again.
    pub duplicates: u64,
    /// Packets behind the window: new or repeated, unknown which.
    pub too_old: u64,
    /// Packets with a number that was not expected.
    pub beyond: u64,
    /// Of the distinct ones: a higher number came before (RFC 4737), over all flows.
    pub reordered: u64,
    /// Of the distinct ones: a higher number of the same flow came before.
    pub reordered_in_flow: u64,
}

/// Remembers what was seen.
pub struct Tracker {
    expect: Option<u64>,
    seen: Vec<u64>,
    highest: Option<u64>,
    /// Per flow, the highest number seen plus one; 0 if none.
    flow_next: Vec<u64>,
    flows: u32,
    counts: Counts,
}

impl Tracker {
    /// A tracker for packets 0 to `expect` - 1, or for any if the number is not known.
    #[must_use]
    pub fn new(expect: Option<u64>) -> Self {
        Self {
            expect,
            seen: vec![0; (WINDOW / WORD) as usize],
            highest: None,
            flow_next: vec![0; FLOWS],
            flows: 0,
            counts: Counts::default(),
        }
    }

    /// Judge and remember one packet.
    pub fn observe(&mut self, sequence: u64, flow: u16) -> Verdict {
        let verdict = self.judge(sequence);
        match verdict {
            Verdict::New => {
                self.counts.distinct += 1;
                self.order_in_flow(sequence, flow);
            }
            Verdict::Duplicate => self.counts.duplicates += 1,
            Verdict::TooOld => self.counts.too_old += 1,
            Verdict::Beyond => self.counts.beyond += 1,
        }
        verdict
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The highest number seen; 0 if none was.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest.unwrap_or(0)
    }

    /// Flows of which a packet was seen.
    #[must_use]
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Packets missing: of those expected or, if that is unknown, below the highest seen.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let range = self
            .expect
            .unwrap_or_else(|| self.highest.map_or(0, |highest| highest.saturating_add(1)));
        range.saturating_sub(self.counts.distinct)
    }

    /// Whether every expected packet was seen.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.expect.is_some_and(|expect| self.counts.distinct == expect)
    }

    fn judge(&mut self, sequence: u64) -> Verdict {
        if self.expect.is_some_and(|expect| sequence >= expect) {
            return Verdict::Beyond;
        }
        match self.highest {
            Some(highest) if sequence <= highest => {
                if highest - sequence >= WINDOW {
                    return Verdict::TooOld;
                }
                if self.mark(sequence) {
                    return Verdict::Duplicate;
                }
                self.counts.reordered += 1;
            }
            previous => {
                self.forget_between(previous, sequence);
                self.highest = Some(sequence);
                self.mark(sequence);
            }
        }
        Verdict::New
    }

    /// Set the bit of a number; returns whether it was set before.
    fn mark(&mut self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        let before = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        before
    }

    /// Clear the bits of the numbers that enter the window when it moves up to `next`.
    fn forget_between(&mut self, previous: Option<u64>, next: u64) {
        let first = previous.map_or(0, |previous| previous + 1);
        if next - first >= WINDOW {
            self.seen.fill(0);
            return;
        }
        let mut at = first;
        while at <= next {
            let (word, bit) = place(at);
            if bit == 1 && next - at >= WORD {
                self.seen[word] = 0;
                at += WORD;
            } else {
                self.seen[word] &= !bit;
                let Some(following) = at.checked_add(1) else { break };
                at = following;
            }
        }
    }

    fn order_in_flow(&mut self, sequence: u64, flow: u16) {
        let next = &mut self.flow_next[usize::from(flow)];
        if *next == 0 {
            self.flows += 1;
        }
        if sequence < *next {
            self.counts.reordered_in_flow += 1;
        } else {
            *next = sequence.saturating_add(1);
        }
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let slot = sequence % WINDOW;
    (usize::try_from(slot / WORD).expect("below the window"), 1 << (slot % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn observe_all(tracker: &mut Tracker, sequences: &[u64]) -> Vec<Verdict> {
        sequences.iter().map(|&sequence| tracker.observe(sequence, 0)).collect()
    }

    #[test]
    fn in_order_loses_nothing() {
        let mut tracker = Tracker::new(Some(1000));
        for sequence in 0..1000 {
            assert!(!tracker.complete());
            assert_eq!(
                tracker.observe(sequence, u16::try_from(sequence % 3).unwrap()),
                Verdict::New
            );
        }
        assert!(tracker.complete());
        assert_eq!(tracker.counts(), Counts { distinct: 1000, ..Counts::default() });
        assert_eq!((tracker.lost(), tracker.flows()), (0, 3));
    }

    #[test]
    fn each_kind_of_trouble_is_told() {
        let mut tracker = Tracker::new(Some(10));
        let verdicts = observe_all(&mut tracker, &[0, 2, 1, 2, 9, 10]);
        assert_eq!(
            verdicts,
            [
                Verdict::New,
                Verdict::New,
                Verdict::New,
                Verdict::Duplicate,
                Verdict::New,
                Verdict::Beyond
            ]
        );
        let expected = Counts {
            distinct: 4,
            duplicates: 1,
            beyond: 1,
            reordered: 1,
            reordered_in_flow: 1,
            ..Counts::default()
        };
        assert_eq!(tracker.counts(), expected);
        assert_eq!(tracker.lost(), 6);
    }

    #[test]
    fn flows_may_overtake_each_other() {
        let mut tracker = Tracker::new(None);
        for (sequence, flow) in [(1, 1), (0, 0), (3, 1), (2, 0)] {
            tracker.observe(sequence, flow);
        }
        assert_eq!((tracker.counts().reordered, tracker.counts().reordered_in_flow), (2, 0));
    }

    #[test]
    fn behind_the_window_is_not_guessed() {
        let mut tracker = Tracker::new(None);
        let verdicts = observe_all(&mut tracker, &[0, WINDOW - 1, 0, WINDOW, 0, 1, 1 << 40, 5]);
        assert_eq!(
            verdicts,
            [
                Verdict::New,
                Verdict::New,
                Verdict::Duplicate,
                Verdict::New,
                Verdict::TooOld,
                Verdict::New,
                Verdict::New,
                Verdict::TooOld
            ]
        );
        assert_eq!(tracker.lost(), (1 << 40) + 1 - 5);
    }

    proptest! {
        /// Against a set that remembers everything; jumps cross words and the window's seam.
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((0_u32..5, -200_i64..400), 1..400)) {
            let mut tracker = Tracker::new(None);
            let mut known = HashSet::new();
            let mut highest: Option<u64> = None;
            let mut reordered = 0;
            let least = i64::try_from(WINDOW).unwrap() - 3000;
            let mut at = least;
            for (repeat, step) in steps {
                at = (at + step).max(least);
                let sequence = u64::try_from(at).unwrap();
                for _ in 0..=repeat {
                    let new = known.insert(sequence);
                    let verdict = tracker.observe(sequence, 0);
                    prop_assert_eq!(verdict == Verdict::New, new);
                    if new && highest.is_some_and(|highest| sequence < highest) {
                        reordered += 1;
                    }
                    highest = highest.max(Some(sequence));
                }
            }
            let counts = tracker.counts();
            prop_assert_eq!(counts.distinct, known.len() as u64);
            prop_assert_eq!(counts.reordered, reordered);
            prop_assert_eq!(counts.reordered_in_flow, reordered);
            prop_assert_eq!(tracker.lost(), highest.unwrap() + 1 - counts.distinct);
        }
    }
}
