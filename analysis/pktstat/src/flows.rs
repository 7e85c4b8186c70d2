// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets by flow, in bounded memory: sums of all 65 536 flows, histograms of the largest.
//!
//! A file of up to [`MOST_FLOWS`] flows has a histogram of each. Of one with more, the largest are
//! known only at its end: it is read again for theirs, and the others have no percentiles.

use std::collections::BTreeMap;

use crate::columns::Columns;
use crate::times::{BUCKETS, Extent, bucket, histogram, percentiles};
use crate::unsigned;
use crate::wide::Wide;

/// Flows that have a histogram.
pub const MOST_FLOWS: usize = 256;
/// Buckets of one power of two.
const ROW: usize = 128;

/// One flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// New packets.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// When the first came.
    pub first_ns: i64,
    /// When the last came.
    pub last_ns: i64,
    /// Their latency, where that is not negative.
    pub latency: Extent,
    /// Its squares, added up.
    pub squares: Wide,
    /// The same latencies by bucket.
    pub histogram: Option<Box<Histogram>>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            latency: Extent::default(),
            squares: Wide::default(),
            histogram: None,
        }
    }
}

impl Flow {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.latency.add(&other.latency);
        self.squares = self.squares.plus(other.squares);
    }
}

/// Latencies by bucket; powers of two that none has take no memory.
#[derive(Clone, Debug)]
pub struct Histogram {
    rows: [Option<Box<[u64; ROW]>>; BUCKETS / ROW],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { rows: [const { None }; BUCKETS / ROW] }
    }
}

impl Histogram {
    fn add(&mut self, value: u64) {
        let at = bucket(value);
        self.rows[at / ROW].get_or_insert_with(|| Box::new([0; ROW]))[at % ROW] += 1;
    }

    fn merge(&mut self, other: Self) {
        for (row, more) in self.rows.iter_mut().zip(other.rows) {
            match (row, more) {
                (Some(row), Some(more)) => {
                    for (held, more) in row.iter_mut().zip(more.iter()) {
                        *held += more;
                    }
                }
                (row @ None, more) => *row = more,
                (Some(_), None) => {}
            }
        }
    }

    fn held(&self, bucket: usize) -> u64 {
        self.rows[bucket / ROW].as_ref().map_or(0, |row| row[bucket % ROW])
    }

    /// Each percentile with enough values beyond it, by its name.
    #[must_use]
    pub fn percentiles(&self, of: &Extent) -> BTreeMap<&'static str, u64> {
        percentiles(of.count, of.min..=of.max, |bucket| self.held(bucket))
    }

    /// Smallest and largest value of each bucket that holds some, and how many.
    #[must_use]
    pub fn rows(&self) -> Vec<[u64; 3]> {
        histogram(|bucket| self.held(bucket))
    }
}

/// All flows, each at its number.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    held: Vec<Flow>,
    /// How many of them have packets.
    some: usize,
}

impl Flows {
    /// Take in packets: all of their figures, or with `only` the histograms of these flows.
    pub fn add(&mut self, columns: &Columns, has_latency: bool, only: Option<&Chosen>) {
        for at in 0..columns.count {
            let number = usize::from(columns.flow[at]);
            if only.is_some_and(|only| !only.has(number)) {
                continue;
            }
            let (received_ns, took) = (columns.received_ns[at + 1], columns.latency_ns[at + 1]);
            let took = (has_latency && took >= 0).then(|| unsigned(took));
            if self.held.len() <= number {
                self.held.resize(number + 1, Flow::default());
            }
            let flow = &mut self.held[number];
            if flow.packets == 0 {
                self.some += 1;
                if self.some == MOST_FLOWS + 1 {
                    self.held.iter_mut().for_each(|flow| flow.histogram = None);
                }
            }
            let flow = &mut self.held[number];
            flow.packets += 1;
            flow.bytes += u64::from(columns.bytes[at]);
            flow.first_ns = flow.first_ns.min(received_ns);
            flow.last_ns = flow.last_ns.max(received_ns);
            let Some(took) = took else { continue };
            let square = u128::from(took);
            flow.latency.add(&Extent { count: 1, min: took, max: took, sum: square });
            flow.squares = flow.squares.plus(Wide::product(square, square));
            if self.some <= MOST_FLOWS {
                flow.histogram.get_or_insert_default().add(took);
            }
        }
    }

    /// Add those of other pieces.
    pub fn merge(&mut self, other: Self) {
        if self.held.is_empty() {
            *self = other;
            return;
        }
        if self.held.len() < other.held.len() {
            self.held.resize(other.held.len(), Flow::default());
        }
        for (flow, mut more) in self.held.iter_mut().zip(other.held) {
            self.some += usize::from(flow.packets == 0 && more.packets > 0);
            flow.add(&more);
            match (&mut flow.histogram, more.histogram.take()) {
                (Some(held), Some(more)) => held.merge(*more),
                (held @ None, more) => *held = more,
                (Some(_), None) => {}
            }
        }
        if self.has_too_many() {
            // One part had few flows, and does not know all packets of them.
            self.held.iter_mut().for_each(|flow| flow.histogram = None);
        }
    }

    /// Whether there are more than have a histogram.
    #[must_use]
    pub fn has_too_many(&self) -> bool {
        self.some > MOST_FLOWS
    }

    /// Those with the most packets, of equal ones those with the lowest numbers.
    #[must_use]
    pub fn largest(&self) -> Chosen {
        let mut order = (0..self.held.len()).collect::<Vec<_>>();
        order.sort_by_key(|&number| std::cmp::Reverse(self.held[number].packets));
        let mut chosen = vec![false; self.held.len()];
        for &number in order.iter().take(MOST_FLOWS) {
            chosen[number] = true;
        }
        Chosen(chosen)
    }

    /// Take over the histograms of another reading of the same packets.
    pub fn take_histograms(&mut self, other: Self) {
        for (flow, more) in self.held.iter_mut().zip(other.held) {
            flow.histogram = more.histogram;
        }
    }

    /// Those with packets, by number.
    pub fn with_packets(&self) -> impl Iterator<Item = (usize, &Flow)> {
        self.held.iter().enumerate().filter(|(_, flow)| flow.packets > 0)
    }
}

/// Flows that a file is read again for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen(Vec<bool>);

impl Chosen {
    fn has(&self, number: usize) -> bool {
        self.0.get(number).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(packets: &[(u16, i64)], only: Option<&Chosen>) -> Flows {
        let mut flows = Flows::default();
        let mut columns = Box::<Columns>::default();
        for part in packets.chunks(100) {
            columns.count = part.len();
            for (at, &(flow, took)) in part.iter().enumerate() {
                columns.flow[at] = flow;
                columns.latency_ns[at + 1] = took;
            }
            flows.add(&columns, true, only);
        }
        flows
    }

    /// Number, packets and histogram.
    type Told = (usize, u64, Option<Vec<[u64; 3]>>);

    fn told(flows: &Flows) -> Vec<Told> {
        let rows = |flow: &Flow| flow.histogram.as_ref().map(|held| held.rows());
        flows.with_packets().map(|(number, flow)| (number, flow.packets, rows(flow))).collect()
    }

    #[test]
    fn of_many_flows_the_largest_have_a_histogram() {
        let most = u16::try_from(MOST_FLOWS).unwrap();
        // Flow 3 has two packets, the others one: the last of them is left out.
        let mut packets = (0..=most).map(|flow| (flow, i64::from(flow))).collect::<Vec<_>>();
        packets.push((3, 1_000_000));
        let mut flows = of(&packets, None);
        assert!(flows.has_too_many() && told(&flows).iter().all(|(.., rows)| rows.is_none()));
        flows.take_histograms(of(&packets, Some(&flows.largest())));
        for (number, packets, rows) in told(&flows) {
            assert_eq!(packets, if number == 3 { 2 } else { 1 });
            assert_eq!(rows.is_none(), number == MOST_FLOWS);
            let held = rows.iter().flatten().map(|row| row[2]).sum::<u64>();
            assert!(rows.is_none() || held == packets, "{number}");
        }
        assert_eq!(told(&flows)[3].2.as_ref().unwrap()[0], [3, 3, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        /// A few flows, or more than have a histogram.
        #[test]
        fn parts_are_the_whole(
            packets in prop::collection::vec((0_u16..400, -9_i64..1 << 40), 0..900),
            of_flows in prop::sample::select(vec![3_u16, 200, 400]),
            at in any::<prop::sample::Index>()
        ) {
            let packets = packets.iter().map(|&(flow, took)| (flow % of_flows, took));
            let packets = packets.collect::<Vec<_>>();
            let whole = of(&packets, None);
            let (one, other) = packets.split_at(at.index(packets.len() + 1));
            let mut merged = of(one, None);
            merged.merge(of(other, None));
            prop_assert_eq!(told(&merged), told(&whole));
            prop_assert_eq!(merged.has_too_many(), whole.has_too_many());
            for (number, count, rows) in told(&whole) {
                let ours = packets.iter().filter(|it| usize::from(it.0) == number);
                prop_assert_eq!(count, ours.clone().count() as u64);
                let known = ours.filter(|it| it.1 >= 0).count() as u64;
                if let Some(rows) = rows {
                    prop_assert_eq!(rows.iter().map(|row| row[2]).sum::<u64>(), known);
                }
            }
        }
    }
}
