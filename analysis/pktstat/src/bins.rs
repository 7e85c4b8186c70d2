// SPDX-License-Identifier: GPL-2.0-or-later
//! What happened over time: a bounded number of bins of one width, a power of two in nanoseconds.
//!
//! They begin narrow, and become twice as wide whenever there are too many. The width that remains
//! is that of all data, whatever the order and the parts in which it came.

use std::collections::VecDeque;

use serde::Serialize;

use crate::times::Extent;

/// What a bin has of what happened in its time.
pub trait Held: Clone + Default {
    /// With what happened in another bin.
    fn add(&mut self, other: &Self);

    /// Whether nothing happened.
    fn is_empty(&self) -> bool;
}

/// Packets that came within one bin's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// How many.
    pub packets: u64,
    /// Of those where it is known, and not negative.
    pub latency: Extent,
}

impl Held for Came {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.latency.add(&other.latency);
    }

    fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

/// All bins; the first and the last are not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins<T> {
    most: usize,
    origin_ns: i64,
    shift: u32,
    /// Number of the first one: 0 begins at the origin.
    first: i64,
    held: VecDeque<T>,
}

impl<T: Held> Bins<T> {
    /// At most `most` bins, at least 2; the first begins at `origin_ns` or a whole number of bins before.
    #[must_use]
    pub fn new(most: usize, origin_ns: i64) -> Self {
        Self { most: most.max(2), origin_ns, shift: 0, first: 0, held: VecDeque::new() }
    }

    fn number(&self, time_ns: i64) -> i64 {
        (time_ns - self.origin_ns) >> self.shift
    }

    /// Whether there is one bin for all from one time to another.
    #[must_use]
    pub fn in_one(&self, from_ns: i64, to_ns: i64) -> bool {
        self.number(from_ns) == self.number(to_ns)
    }

    /// What happened at a time, or in times that are of one bin with it.
    pub fn add(&mut self, time_ns: i64, what: &T) {
        let at = self.place(self.number(time_ns), time_ns);
        self.held[at].add(what);
    }

    /// Where a bin is; there is room for it then.
    fn place(&mut self, number: i64, time_ns: i64) -> usize {
        let mut number = number;
        loop {
            if self.held.is_empty() {
                self.first = number;
                self.held.push_back(T::default());
            }
            let last = self.first + i64::try_from(self.held.len()).unwrap_or(i64::MAX) - 1;
            let (low, high) = (self.first.min(number), last.max(number));
            if usize::try_from(high - low).is_ok_and(|apart| apart < self.most) {
                for _ in low..self.first {
                    self.held.push_front(T::default());
                }
                for _ in last..high {
                    self.held.push_back(T::default());
                }
                self.first = low;
                return usize::try_from(number - low).unwrap_or(0);
            }
            self.widen();
            number = self.number(time_ns);
        }
    }

    fn widen(&mut self) {
        let (begin, bins) = (self.first, std::mem::take(&mut self.held));
        self.shift += 1;
        self.first = begin >> 1;
        for (number, bin) in (begin..).zip(bins) {
            let at = usize::try_from((number >> 1) - self.first).unwrap_or(0);
            if at == self.held.len() {
                self.held.push_back(T::default());
            }
            self.held[at].add(&bin);
        }
    }

    /// Add all of another one, with the same origin.
    pub fn merge(&mut self, mut other: Self) {
        while other.shift < self.shift {
            other.widen();
        }
        while self.shift < other.shift {
            self.widen();
        }
        let width = 1_i64 << other.shift;
        for (number, bin) in (other.first..).zip(&other.held) {
            // One that is empty is none of this one's either; the first and the last are not.
            if !bin.is_empty() {
                self.add(self.origin_ns + number * width, bin);
            }
        }
    }

    /// Bins as they are printed, by what each is made from: its begin after the origin, and what
    /// it holds.
    pub fn report<R>(&self, row: impl Fn(i128, &T) -> R) -> BinsReport<R> {
        let width = 1_u64 << self.shift;
        let begin = |number: i64| i128::from(number) * i128::from(width);
        BinsReport {
            width_ns: width,
            origin_ns: self.origin_ns,
            rows: (self.first..).zip(&self.held).map(|(at, bin)| row(begin(at), bin)).collect(),
        }
    }

    /// The same of those that are not empty.
    pub fn report_some<R>(&self, row: impl Fn(i128, &T) -> R) -> BinsReport<R> {
        let all = self.report(|begin, bin| (!bin.is_empty()).then(|| row(begin, bin)));
        BinsReport {
            width_ns: all.width_ns,
            origin_ns: all.origin_ns,
            rows: all.rows.into_iter().flatten().collect(),
        }
    }
}

/// All bins: `begin_ns` is after the origin.
#[derive(Debug, PartialEq, Serialize)]
pub struct BinsReport<R> {
    width_ns: u64,
    origin_ns: i64,
    /// In order.
    pub rows: Vec<R>,
}

/// Packets of one bin, as they are printed.
#[derive(Debug, PartialEq, Serialize)]
pub struct CameReport {
    begin_ns: i128,
    packets: u64,
    min_ns: Option<u64>,
    mean_ns: Option<f64>,
    max_ns: Option<u64>,
}

impl CameReport {
    /// Of a bin with this begin.
    #[must_use]
    pub fn of(begin_ns: i128, came: &Came) -> Self {
        let some = came.latency.count > 0;
        Self {
            begin_ns,
            packets: came.packets,
            min_ns: some.then_some(came.latency.min),
            mean_ns: came.latency.mean(),
            max_ns: some.then_some(came.latency.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(most: usize, origin: i64, times: &[(i64, i64)]) -> Bins<Came> {
        let mut bins = Bins::new(most, origin);
        for &(received, latency) in times {
            bins.add(received, &Came { packets: 1, latency: Extent::of(&[latency]) });
        }
        bins
    }

    #[test]
    fn a_thousand_packets_in_eight_bins() {
        let times = (0..1000).map(|at| (at * 1000, at)).collect::<Vec<_>>();
        let report = of(8, 0, &times).report(CameReport::of);
        // A million nanoseconds: 131 072 in each of eight.
        assert_eq!((report.width_ns, report.rows.len()), (131_072, 8));
        let first = &report.rows[0];
        assert_eq!((first.begin_ns, first.packets, first.max_ns), (0, 132, Some(131)));
        assert_eq!(first.mean_ns, Some(65.5));
    }

    proptest! {
        #[test]
        fn order_and_parts_change_nothing(
            times in prop::collection::vec((-1_i64 << 61..1 << 61, 0_i64..1000, 0_u32..60), 0..200),
            most in 2_usize..50, at in any::<prop::sample::Index>()
        ) {
            let times = times.iter().map(|&(time, took, shift)| (time >> shift, took));
            let times = times.collect::<Vec<_>>();
            let whole = of(most, 5, &times);
            let (one, other) = times.split_at(at.index(times.len() + 1));
            let mut merged = of(most, 5, other);
            merged.merge(of(most, 5, one));
            prop_assert_eq!(&merged, &whole);
            let report = whole.report(CameReport::of);
            prop_assert_eq!(
                whole.report_some(CameReport::of).rows,
                whole.report(CameReport::of).rows.into_iter().filter(|row| row.packets > 0)
                    .collect::<Vec<_>>()
            );
            prop_assert!(report.rows.len() <= most);
            // As narrow as can be, and each packet is in its bin.
            let span = |width: i64| {
                let of = |at: i64| (at - 5).div_euclid(width);
                let numbers = times.iter().map(|&(time, _)| of(time));
                numbers.clone().max().zip(numbers.min()).map_or(0, |(high, low)| high - low + 1)
            };
            let width = i64::try_from(report.width_ns).unwrap();
            prop_assert!(width == 1 || span(width / 2) > i64::try_from(most).unwrap());
            for row in &report.rows {
                let within = |&&(time, _): &&(i64, i64)| {
                    (row.begin_ns..row.begin_ns + i128::from(width)).contains(&(i128::from(time) - 5))
                };
                let there = times.iter().filter(within).map(|&(_, took)| took).collect::<Vec<_>>();
                prop_assert_eq!(row.packets, there.len() as u64);
                prop_assert_eq!(row.max_ns, there.iter().max().map(|&it| it.unsigned_abs()));
            }
        }
    }
}
