// SPDX-License-Identifier: GPL-2.0-or-later
//! Loss and reordering, from the numbers of new packets in the order in which they came.
//!
//! A packet is reordered if a higher number came before it; its extent is by how many packets: how
//! far back the first one with a higher number is (RFC 4737, sections 3.3 and 4.2.2). Only packets
//! that were higher than all before can be that first one. They are kept as runs of successive
//! numbers, so traffic in order takes one of them, and the number of runs is bounded.

use std::collections::VecDeque;

use crate::times::Times;

/// Runs that are kept: behind so many places where numbers jump, an extent is a lower bound.
pub const MOST_RUNS: usize = 1 << 16;

/// Packets whose numbers follow each other, in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first number.
    pub first: u64,
    /// How many packets they are, at least one; the last number is below 2^64.
    pub count: u64,
}

/// Add a number to runs: to the last one, if it follows.
#[inline]
pub fn extend(runs: &mut Vec<Run>, first: u64, count: u64) {
    match runs.last_mut() {
        Some(last) if last.first.checked_add(last.count) == Some(first) => last.count += count,
        _ => runs.push(Run { first, count }),
    }
}

/// A run of packets that were higher than all before.
#[derive(Clone, Copy)]
struct Rising {
    run: Run,
    /// How many new packets came before its first.
    place: u64,
}

impl Rising {
    fn last(&self) -> u64 {
        self.run.first + (self.run.count - 1)
    }
}

/// Remembers what of the numbers matters.
#[derive(Default)]
pub struct Order {
    rising: VecDeque<Rising>,
    forgot: bool,
    /// New packets so far.
    place: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    reordered: u64,
    extents: Times,
    at_least: u64,
}

impl Order {
    /// Take in packets that came next, each of them for the first time.
    pub fn add(&mut self, run: Run) {
        let Run { first, count } = run;
        self.lowest = Some(self.lowest.map_or(first, |lowest| lowest.min(first)));
        let behind = self
            .highest
            .map_or(0, |highest| (u128::from(highest) + 1).saturating_sub(first.into()))
            .min(count.into());
        let behind = u64::try_from(behind).unwrap_or(u64::MAX);
        // The number behind the last one may be beyond 64 bits.
        for more in 0..behind {
            self.add_reordered(first + more);
        }
        if behind < count {
            self.add_rising(Run { first: first + behind, count: count - behind });
        }
    }

    fn add_rising(&mut self, run: Run) {
        self.highest = Some(run.first + (run.count - 1));
        let place = self.place;
        self.place += run.count;
        if let Some(last) = self.rising.back_mut() {
            let follows = last.run.first.checked_add(last.run.count) == Some(run.first);
            if follows && last.place + last.run.count == place {
                last.run.count += run.count;
                return;
            }
        }
        if self.rising.len() == MOST_RUNS {
            self.rising.pop_front();
            self.forgot = true;
        }
        self.rising.push_back(Rising { run, place });
    }

    fn add_reordered(&mut self, number: u64) {
        self.reordered += 1;
        let at = self.rising.partition_point(|rising| rising.last() <= number);
        // The highest is above it, or is the same number again.
        if let Some(found) = self.rising.get(at) {
            let within = if number < found.run.first { 0 } else { number - found.run.first + 1 };
            let extent = self.place - (found.place + within);
            self.extents.add(i64::try_from(extent).unwrap_or(i64::MAX));
            self.at_least += u64::from(self.forgot && at == 0 && within == 0);
        }
        self.place += 1;
    }

    /// New packets.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.place
    }

    /// Numbers that did not come: below the highest, and from 0 or the lowest on.
    #[must_use]
    pub fn missing(&self, from_zero: bool) -> u64 {
        let (Some(lowest), Some(highest)) = (self.lowest, self.highest) else { return 0 };
        let low = if from_zero { 0 } else { lowest };
        let there = u128::from(highest - low) + 1;
        u64::try_from(there.saturating_sub(self.place.into())).unwrap_or(u64::MAX)
    }

    /// Packets that came after a higher number.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// By how many packets, of each reordered one.
    #[must_use]
    pub fn extents(&self) -> &Times {
        &self.extents
    }

    /// Of these, lower bounds.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        self.at_least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: &[u64]) -> Order {
        let (mut order, mut runs) = (Order::default(), Vec::new());
        for &number in numbers {
            extend(&mut runs, number, 1);
        }
        for run in runs {
            order.add(run);
        }
        order
    }

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 4737, section 10.2: packet 4 is reordered, three packets late.
        let order = of(&[1, 2, 3, 5, 6, 7, 4, 8, 9, 10]);
        let report = order.extents().report();
        assert_eq!((order.reordered(), order.extents().value_at(0)), (1, Some(3)));
        assert_eq!((order.missing(false), order.missing(true), order.distinct()), (0, 1, 10));
        assert_eq!(
            report,
            {
                let mut one = Times::default();
                one.add(3);
                one
            }
            .report()
        );
    }

    #[test]
    fn the_largest_numbers() {
        let order = of(&[u64::MAX - 1, u64::MAX, 5]);
        assert_eq!((order.reordered(), order.missing(true)), (1, u64::MAX - 2));
        assert_eq!(order.extents().value_at(0), Some(2));
        let again = of(&[u64::MAX, u64::MAX]);
        assert_eq!((again.reordered(), again.extents().count()), (1, 0));
        let order = of(&[u64::MAX, 0, 1]);
        assert_eq!((order.reordered(), order.distinct()), (2, 3));
    }

    #[test]
    fn memory_is_bounded_and_says_so() {
        let mut order = Order::default();
        let jumps = MOST_RUNS as u64 + 10;
        for at in 0..jumps {
            order.add(Run { first: 10 + 2 * at, count: 1 });
        }
        order.add(Run { first: 3, count: 1 });
        assert_eq!(order.rising.len(), MOST_RUNS);
        assert_eq!((order.reordered(), order.at_least()), (1, 1));
        assert_eq!(order.extents().value_at(0), Some(MOST_RUNS as u64));
    }

    proptest! {
        /// By the definitions, with each packet compared to all before it.
        #[test]
        fn it_is_what_the_rfc_says(numbers in prop::collection::vec(0_u64..60, 0..60)) {
            let mut new = Vec::<u64>::new();
            for number in numbers {
                if !new.contains(&number) {
                    new.push(number);
                }
            }
            let order = of(&new);
            let mut extents = Times::default();
            for (at, number) in new.iter().enumerate() {
                if let Some(first) = new[..at].iter().position(|before| before > number) {
                    extents.add(i64::try_from(at - first).unwrap());
                }
            }
            prop_assert_eq!(order.reordered(), extents.count());
            prop_assert_eq!(order.extents().report(), extents.report());
            let highest = new.iter().max().map_or(0, |highest| highest + 1);
            prop_assert_eq!(order.missing(true), highest - new.len() as u64);
        }
    }
}
