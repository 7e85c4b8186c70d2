// SPDX-License-Identifier: GPL-2.0-or-later
//! Reorder density: by how many places each packet is away from where it belongs, and how many wait
//! for it then (RFC 5236).
//!
//! Packets that come get the numbers that come, in rising order: that is their receive index.
//! Displacement is the receive index less the packet's own number: below 0 it came early, above 0 late.
//! A number that no packet has among those that came before, and the next [`THRESHOLD`], is lost and
//! is nobody's index. Who comes with such a number after all, or would be displaced by more, has no
//! index either, and is counted apart.
//!
//! Whoever puts packets in order again keeps those that came before one that is still to come. How many
//! they are after each arrival is the occupancy of that buffer: each index before the lowest number
//! that is owed has come, so that it is the indices given since, and those of whom came too late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use crate::order::Run;

/// Packets that are looked ahead; the largest displacement that is told.
pub const THRESHOLD: u64 = 256;

/// Takes in numbers as they came, and keeps no more of them than the threshold says.
#[derive(Default)]
pub struct Density {
    /// The next receive index, unless it is lost; below 2^65.
    next: u128,
    /// Packets that came and have no index yet, and how many they are.
    waiting: VecDeque<Run>,
    waiting_packets: u64,
    /// Numbers that have come, and were nobody's index so far.
    early: BTreeSet<u64>,
    /// Numbers that were somebody's index, and have not come so far; with how many indices had been
    /// given before.
    owed: BTreeMap<u64, u64>,
    /// Indices that were given.
    given: u64,
    /// Numbers that were somebody's index and came displaced by too much; how many are below the
    /// lowest that is owed, and the others.
    void_below: u64,
    void: BTreeSet<u64>,
    /// Arrivals by how many packets wait then, if any does.
    occupied: BTreeMap<u64, u64>,
    in_place: u64,
    displaced: BTreeMap<i64, u64>,
    beyond: u64,
}

impl Density {
    /// Take in packets that came next, each of them for the first time.
    pub fn add(&mut self, run: Run) {
        match self.waiting.back_mut() {
            Some(last) if last.first.checked_add(last.count) == Some(run.first) => {
                last.count += run.count;
            }
            _ => self.waiting.push_back(run),
        }
        self.waiting_packets += run.count;
        self.index(false);
    }

    /// No more packets come.
    pub fn end(&mut self) {
        self.index(true);
    }

    /// Give packets their index, as far as enough of those behind them are known.
    fn index(&mut self, ended: bool) {
        while let Some(&Run { first, count }) = self.waiting.front() {
            if self.early.is_empty() && u128::from(first) == self.next {
                // All of them are in place, whatever comes.
                self.take(count);
                self.next += u128::from(count);
                self.given += count;
                self.in_place += count;
            } else if ended || self.waiting_packets > THRESHOLD {
                self.take(1);
                self.index_one(first);
            } else {
                return;
            }
        }
    }

    fn take(&mut self, count: u64) {
        self.waiting_packets -= count;
        if let Some(run) = self.waiting.front_mut() {
            run.count -= count;
            if run.count == 0 {
                self.waiting.pop_front();
            } else {
                run.first += count;
            }
        }
    }

    fn index_one(&mut self, number: u64) {
        let late = u128::from(number) < self.next;
        // One that was taken for lost, or that the file has twice.
        let owed = late && self.owed.remove(&number).is_some();
        if if late { !owed } else { self.early.contains(&number) } {
            self.beyond += 1;
            return;
        }
        let found = self.next_index((!late).then_some(number)).and_then(|index| {
            let by = i64::try_from(i128::from(index) - i128::from(number)).ok()?;
            (by.unsigned_abs() <= THRESHOLD).then_some((index, by))
        });
        let Some((index, by)) = found else {
            // It has no index, so that it displaces nobody.
            self.beyond += 1;
            if owed {
                self.void.insert(number);
            }
            return;
        };
        self.next = u128::from(index) + 1;
        if number > index {
            self.early.insert(number);
        }
        if number != index && !self.early.remove(&index) {
            self.owed.insert(index, self.given);
        }
        self.given += 1;
        if let Some((&missing, before)) = self.owed.first_key_value() {
            while self.void.first().is_some_and(|&number| number < missing) {
                self.void.pop_first();
                self.void_below += 1;
            }
            *self.occupied.entry(self.given - before + self.void_below).or_default() += 1;
        }
        if by == 0 {
            self.in_place += 1;
        } else {
            *self.displaced.entry(by).or_default() += 1;
        }
    }

    /// The lowest number from the next index on that came before, comes now, or comes soon.
    fn next_index(&self, now: Option<u64>) -> Option<u64> {
        // There is no such number below the next index.
        let before = self.early.first().copied();
        let known = [before, now].into_iter().flatten().min();
        let mut found = known.map_or(u128::MAX, u128::from);
        let mut left = THRESHOLD;
        for run in &self.waiting {
            if found == self.next || left == 0 {
                break;
            }
            let (first, count) = (u128::from(run.first), run.count.min(left));
            left -= count;
            if first + u128::from(count) > self.next {
                found = found.min(first.max(self.next));
            }
        }
        // There is one: each packet so far has an index, and a late one has come by now, so that
        // one of those that came is nobody's. Not so if the file has a number twice.
        u64::try_from(found).ok()
    }

    /// As it is printed.
    #[must_use]
    pub fn report(&self) -> DensityReport {
        let zero = (self.in_place > 0).then_some((0, self.in_place));
        let mut packets =
            self.displaced.iter().map(|(&by, &count)| (by, count)).collect::<Vec<_>>();
        packets.extend(zero);
        packets.sort_unstable();
        let empty = self.given - self.occupied.values().sum::<u64>();
        let empty = (empty > 0).then_some((0, empty));
        let occupied = self.occupied.iter().map(|(&waiting, &count)| (waiting, count));
        let occupancy = empty.into_iter().chain(occupied).collect();
        DensityReport { threshold: THRESHOLD, packets, beyond: self.beyond, occupancy }
    }
}

/// Packets by displacement, those that are displaced by more than the threshold, and arrivals of the
/// others by how many packets wait then for one with a lower number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DensityReport {
    threshold: u64,
    packets: Vec<(i64, u64)>,
    beyond: u64,
    occupancy: Vec<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::extend;
    use crate::signed;
    use proptest::prelude::*;

    fn of(numbers: &[u64], part: usize) -> Density {
        let mut density = Density::default();
        for part in numbers.chunks(part.max(1)) {
            let mut runs = Vec::new();
            for &number in part {
                extend(&mut runs, number, 1);
            }
            for run in runs {
                density.add(run);
            }
        }
        density.end();
        density
    }

    fn displaced(numbers: &[u64]) -> Vec<(i64, u64)> {
        of(numbers, 7).report().packets
    }

    #[test]
    fn packets_that_change_places() {
        assert_eq!(displaced(&[1, 2, 3]), [(0, 3)]);
        assert_eq!(displaced(&[2, 1, 3]), [(-1, 1), (0, 1), (1, 1)]);
        // Displacements 0, -2, 1, -1, 2, 0, 0, 0.
        let many = [1, 4, 2, 5, 3, 6, 7, 8];
        assert_eq!(displaced(&many), [(-2, 1), (-1, 1), (0, 4), (1, 1), (2, 1)]);
    }

    fn occupancy(numbers: &[u64]) -> Vec<(u64, u64)> {
        of(numbers, 3).report().occupancy
    }

    #[test]
    fn packets_wait_for_one_that_is_still_to_come() {
        assert_eq!(occupancy(&[1, 2, 3]), [(0, 3)]);
        // 4 waits for 2, then 4 for 3, then 4 and 5.
        assert_eq!(occupancy(&[1, 4, 2, 5, 3, 6, 7, 8]), [(0, 5), (1, 2), (2, 1)]);
        assert_eq!(occupancy(&[2, 3, 4, 5, 1]), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        // Nobody waits for what is lost.
        assert_eq!(occupancy(&[1, 3, 2, 6, 5, 9]), [(0, 4), (1, 2)]);
        assert!(occupancy(&[]).is_empty());
    }

    #[test]
    fn what_is_lost_displaces_nobody() {
        assert_eq!(displaced(&[1, 2, 5, 6, 1000]), [(0, 5)]);
        assert_eq!(displaced(&[1, 5, 4, 8]), [(-1, 1), (0, 2), (1, 1)]);
    }

    #[test]
    fn who_comes_too_late_is_counted_apart() {
        let far = THRESHOLD + 1;
        let mut numbers = (2..2 + far).collect::<Vec<_>>();
        numbers.push(1);
        let report = of(&numbers, 50).report();
        assert_eq!((report.packets, report.beyond), (vec![(0, far)], 1));
        // One place less, and it is late by all the others, which are early by one.
        numbers.remove(numbers.len() - 2);
        let report = of(&numbers, 50).report();
        let most = i64::try_from(THRESHOLD).unwrap();
        assert_eq!((report.packets, report.beyond), (vec![(-1, THRESHOLD), (most, 1)], 0));
    }

    #[test]
    fn the_largest_numbers() {
        let end = u64::MAX;
        assert_eq!(displaced(&[end - 1, end]), [(0, 2)]);
        assert_eq!(displaced(&[end, end - 1]), [(-1, 1), (1, 1)]);
        assert_eq!(of(&[5, end, 7], 1).report().beyond, 1);
    }

    #[test]
    fn one_that_is_far_off_displaces_nobody() {
        let mut numbers = (0..800).filter(|&it| it != 700).collect::<Vec<_>>();
        numbers.insert(2, 700);
        let report = of(&numbers, 90).report();
        assert_eq!((report.packets, report.beyond), (vec![(0, 799)], 1));
    }

    #[test]
    fn a_number_twice_is_no_packet_twice() {
        for numbers in [&[5, 5, 1, 2][..], &[1, 2, 2, 3], &[3, 1, 2, 1, 4], &[u64::MAX, u64::MAX]] {
            let report = of(numbers, 1).report();
            let held = report.packets.iter().map(|&(_, count)| count).sum::<u64>();
            assert_eq!((held + report.beyond, report.beyond), (numbers.len() as u64, 1));
        }
    }

    /// By the definition, packet by packet.
    fn slow(numbers: &[u64]) -> DensityReport {
        let window = usize::try_from(THRESHOLD).unwrap();
        let (mut packets, mut beyond) = (BTreeMap::new(), 0);
        let (mut indices, mut discarded) = (BTreeSet::new(), BTreeSet::new());
        let (mut came, mut void) = (BTreeSet::new(), BTreeSet::new());
        let mut occupancy = BTreeMap::new();
        for (at, &number) in numbers.iter().enumerate() {
            let known = &numbers[..numbers.len().min(at + 1 + window)];
            let last = indices.last().copied();
            let free = |it: &&u64| last.is_none_or(|last| **it > last) && !discarded.contains(*it);
            let index = known.iter().filter(free).min().copied();
            let given_up = last.is_some_and(|last| number < last) && !indices.contains(&number);
            let by = index.map(|index| signed(index) - signed(number));
            match (index, by) {
                (Some(index), Some(by)) if !given_up && by.unsigned_abs() <= THRESHOLD => {
                    indices.insert(index);
                    *packets.entry(by).or_insert(0) += 1;
                    came.insert(number);
                    // What is not there yet, and all that came and is behind it.
                    let is_missing = |it: &&u64| !came.contains(*it) && !void.contains(*it);
                    let missing = indices.iter().find(is_missing).copied();
                    let waiting = missing.map_or(0, |it: u64| came.range(it..).count() as u64);
                    *occupancy.entry(waiting).or_insert(0) += 1;
                }
                _ => {
                    discarded.insert(number);
                    beyond += 1;
                    // It has come, if late: nobody waits for it any more.
                    void.insert(number);
                }
            }
        }
        DensityReport {
            threshold: THRESHOLD,
            packets: packets.into_iter().collect(),
            beyond,
            occupancy: occupancy.into_iter().collect(),
        }
    }

    /// Numbers, each once, which are near their places but for some.
    fn shuffled() -> impl Strategy<Value = Vec<u64>> {
        let one = (0_u64..12, prop::bool::weighted(0.02), 0_u64..900, prop::bool::weighted(0.1));
        prop::collection::vec(one, 0..900).prop_map(|made| {
            let mut keyed = (0_u64..)
                .zip(made)
                .filter(|(_, (_, _, _, lost))| !lost)
                .map(|(number, (near, is_far, far, _))| {
                    (number + if is_far { far } else { near }, number)
                })
                .collect::<Vec<_>>();
            keyed.sort_unstable();
            keyed.into_iter().map(|(_, number)| number).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        #[test]
        fn it_is_what_the_definition_says(numbers in shuffled(), part in 1_usize..1000) {
            let density = of(&numbers, part);
            let report = density.report();
            prop_assert_eq!(&report, &slow(&numbers));
            let held = report.packets.iter().map(|&(_, count)| count).sum::<u64>();
            prop_assert_eq!(held + report.beyond, numbers.len() as u64);
            prop_assert!(density.owed.len() as u64 <= THRESHOLD);
        }

        #[test]
        fn memory_is_bounded(numbers in prop::collection::vec(any::<u64>(), 0..1500)) {
            let mut density = Density::default();
            for number in numbers {
                density.add(Run { first: number, count: 1 });
                prop_assert!(density.waiting_packets <= THRESHOLD + 1);
                prop_assert!(density.early.len() as u64 <= THRESHOLD + 1);
            }
        }
    }
}
