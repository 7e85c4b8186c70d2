// SPDX-License-Identifier: GPL-2.0-or-later
//! Anomalies: maximal runs of at least so many packets in a row with a latency of so much or more.
//!
//! Packets are in a row as they came. A part of the data is looked at by itself ([`Runs`]), and
//! what touches its ends is joined with its neighbours in their order ([`Joined`]).

use serde::Serialize;

use crate::bins::{Bins, BinsReport, Held};
use crate::times::{CHUNK, Extent};
use crate::unsigned;

/// What is an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets in a row, at least 1.
    pub least: u64,
    /// The least latency of each of them, nanoseconds.
    pub late_ns: u64,
}

/// A limit, and of how many medians it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// What is an anomaly.
    pub limit: Limit,
    /// Its latency divided by the median, if that is how it was asked for.
    pub of_median: Option<f64>,
}

/// Packets in a row that are all late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which the first of them is, of all packets that count.
    pub place: u64,
    /// Its number, of files that have such.
    pub sequence: u64,
    /// When the first and the last of them came.
    pub first_ns: i64,
    /// When the last came.
    pub last_ns: i64,
    /// Their latency.
    pub latency: Extent,
}

impl Run {
    fn join(&mut self, next: &Self) {
        self.last_ns = next.last_ns;
        self.latency.add(&next.latency);
    }

    /// From the arrival of the first packet to that of the last; 0 where a clock went back.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        u64::try_from(self.last_ns - self.first_ns).unwrap_or(0)
    }
}

/// An anomaly, and whether the data begins or ends within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The packets.
    pub run: Run,
    /// Its first packet is the first of the data.
    pub open_begin: bool,
    /// Its last packet is the last of the data.
    pub open_end: bool,
}

/// Late packets of a part of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    packets: u64,
    /// The one that begins with the first packet, once it has ended.
    leading: Option<Run>,
    /// Those that are long enough, but for the first and the last.
    inner: Vec<Run>,
    /// The one that goes on.
    open: Option<Run>,
}

/// Some packets in their order; times and latencies have one length, which is not above [`CHUNK`].
pub struct Packets<'a> {
    /// How many came before, in this part.
    pub place: u64,
    /// Numbers, if there are any.
    pub sequence: &'a [u64],
    /// When each came.
    pub received_ns: &'a [i64],
    /// How long each took; a negative one is not late.
    pub latency_ns: &'a [i64],
    /// Of all of them, if none is negative.
    pub extent: Option<Extent>,
}

impl Packets<'_> {
    fn run(&self, begin: usize, end: usize) -> Run {
        let whole = self.extent.filter(|_| end - begin == self.latency_ns.len());
        Run {
            place: self.place + begin as u64,
            sequence: self.sequence.get(begin).copied().unwrap_or(0),
            first_ns: self.received_ns[begin],
            last_ns: self.received_ns[end - 1],
            latency: whole.unwrap_or_else(|| Extent::of(&self.latency_ns[begin..end])),
        }
    }
}

impl Runs {
    /// As before the first packet, with the memory that it has.
    pub fn clear(&mut self) {
        self.inner.clear();
        *self = Self { inner: std::mem::take(&mut self.inner), ..Self::default() };
    }

    /// Take in the packets that come next.
    #[inline(always)]
    pub fn add(&mut self, limit: Limit, packets: &Packets) {
        let count = packets.latency_ns.len();
        if count == 0 {
            return;
        }
        let none_late = packets.extent.is_some_and(|extent| extent.max < limit.late_ns);
        let all_late = packets.extent.is_some_and(|extent| extent.min >= limit.late_ns);
        if none_late {
            self.close(limit);
        } else if all_late {
            self.extend(packets, 0, count);
        } else {
            self.search(limit, packets);
        }
        self.packets += count as u64;
    }

    #[inline(always)]
    fn search(&mut self, limit: Limit, packets: &Packets) {
        let mut late = [0_u64; CHUNK / 64];
        for (bits, latencies) in late.iter_mut().zip(packets.latency_ns.chunks(64)) {
            for (bit, &latency) in latencies.iter().enumerate() {
                let is_late = latency >= 0 && unsigned(latency) >= limit.late_ns;
                *bits |= u64::from(is_late) << bit;
            }
        }
        let count = packets.latency_ns.len();
        let mut at = 0;
        loop {
            let begin = next(&late, at, count, false);
            if begin > 0 || count == 0 {
                self.close(limit);
            }
            if begin == count {
                return;
            }
            at = next(&late, begin, count, true);
            if at == count || begin == 0 || (at - begin) as u64 >= limit.least {
                self.extend(packets, begin, at);
            }
            if at == count {
                return;
            }
        }
    }

    fn extend(&mut self, packets: &Packets, begin: usize, end: usize) {
        let found = packets.run(begin, end);
        match &mut self.open {
            Some(open) => open.join(&found),
            None => self.open = Some(found),
        }
    }

    /// The packet after it is not late.
    fn close(&mut self, limit: Limit) {
        let Some(run) = self.open.take() else { return };
        if run.place == 0 {
            self.leading = Some(run);
        } else if run.latency.count >= limit.least {
            self.inner.push(run);
        }
    }
}

/// The next packet from `at` on that is late, or with `flip` the next that is not; else `count`.
#[inline(always)]
fn next(late: &[u64; CHUNK / 64], at: usize, count: usize, flip: bool) -> usize {
    let mut at = at;
    while at < count {
        let word = late[at / 64 % late.len()];
        let rest = (if flip { !word } else { word }) >> (at % 64);
        if rest != 0 {
            return count.min(at + rest.trailing_zeros() as usize);
        }
        at = (at / 64 + 1) * 64;
    }
    count
}

/// Joins the late packets of parts, which come in their order.
#[derive(Clone, Debug)]
pub struct Joined {
    limit: Limit,
    packets: u64,
    open: Option<Run>,
}

impl Joined {
    /// Before the first part.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self { limit, packets: 0, open: None }
    }

    /// Take in the next part; each anomaly that has ended is given to `found`.
    ///
    /// # Errors
    /// What `found` says.
    pub fn add<E>(
        &mut self,
        runs: &Runs,
        mut found: impl FnMut(Anomaly) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.packets;
        let placed = |mut run: Run| {
            run.place += before;
            run
        };
        self.packets += runs.packets;
        if let Some(leading) = runs.leading {
            self.join(placed(leading));
        }
        let goes_on = runs.leading.is_none()
            && runs.open.is_some_and(|open| open.latency.count == runs.packets);
        if runs.packets > 0 && !goes_on {
            self.close(&mut found)?;
        }
        for &run in &runs.inner {
            // Only the leading run of all data is open at its begin.
            found(Anomaly { run: placed(run), open_begin: false, open_end: false })?;
        }
        if let Some(open) = runs.open {
            self.join(placed(open));
        }
        Ok(())
    }

    fn join(&mut self, run: Run) {
        match &mut self.open {
            Some(open) => open.join(&run),
            None => self.open = Some(run),
        }
    }

    fn close<E>(&mut self, found: &mut impl FnMut(Anomaly) -> Result<(), E>) -> Result<(), E> {
        self.give(false, found)
    }

    fn give<E>(
        &mut self,
        open_end: bool,
        found: &mut impl FnMut(Anomaly) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.open.take() {
            Some(run) if run.latency.count >= self.limit.least => {
                found(Anomaly { run, open_begin: run.place == 0, open_end })
            }
            _ => Ok(()),
        }
    }

    /// The data ends here.
    ///
    /// # Errors
    /// What `found` says.
    pub fn end<E>(&mut self, mut found: impl FnMut(Anomaly) -> Result<(), E>) -> Result<(), E> {
        self.give(true, &mut found)
    }
}

/// The longest ones that a summary has.
pub const LONGEST: usize = 10;

/// Anomalies that begin within one bin's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Begun {
    anomalies: u64,
    /// Of all their packets.
    latency: Extent,
    longest_ns: u64,
}

impl Held for Begun {
    fn add(&mut self, other: &Self) {
        self.anomalies += other.anomalies;
        self.latency.add(&other.latency);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    fn is_empty(&self) -> bool {
        self.anomalies == 0
    }
}

/// All anomalies of one kind, in bounded memory.
#[derive(Debug)]
pub struct Summary {
    count: u64,
    packets: u64,
    open_begin: bool,
    open_end: bool,
    duration: Extent,
    longest: Vec<Anomaly>,
    over_time: Bins<Begun>,
}

impl Summary {
    /// Of none yet; over time in at most `most_bins`, as [`Bins::new`] has them.
    #[must_use]
    pub fn new(most_bins: usize, origin_ns: i64) -> Self {
        Self {
            count: 0,
            packets: 0,
            open_begin: false,
            open_end: false,
            duration: Extent::default(),
            longest: Vec::new(),
            over_time: Bins::new(most_bins, origin_ns),
        }
    }

    /// Count one.
    pub fn add(&mut self, anomaly: Anomaly) {
        let duration = anomaly.run.duration_ns();
        self.count += 1;
        self.packets += anomaly.run.latency.count;
        self.open_begin |= anomaly.open_begin;
        self.open_end |= anomaly.open_end;
        self.duration.add(&Extent { count: 1, min: duration, max: duration, sum: duration.into() });
        let begun = Begun { anomalies: 1, latency: anomaly.run.latency, longest_ns: duration };
        self.over_time.add(anomaly.run.first_ns, &begun);
        let packets = |it: &Anomaly| it.run.latency.count;
        let least = self.longest.last().map(packets);
        if self.longest.len() == LONGEST && least >= Some(packets(&anomaly)) {
            return;
        }
        // Of those that are equally long, the first ones stay.
        let at = self.longest.partition_point(|held| packets(held) >= packets(&anomaly));
        if at < LONGEST {
            self.longest.insert(at, anomaly);
            self.longest.truncate(LONGEST);
        }
    }

    /// As it is printed; `packets` are all that were looked at.
    #[must_use]
    pub fn report(&self, asked: Asked, packets: u64, numbered: bool) -> LateReport {
        let Asked { limit, of_median } = asked;
        let some = self.count > 0;
        LateReport {
            least: limit.least,
            late_ns: limit.late_ns,
            of_median,
            count: self.count,
            packets: self.packets,
            share: (packets > 0).then(|| self.packets as f64 / packets as f64),
            open_begin: self.open_begin,
            open_end: self.open_end,
            duration_ns: DurationReport {
                total: u64::try_from(self.duration.sum).unwrap_or(u64::MAX),
                min: some.then_some(self.duration.min),
                mean: self.duration.mean(),
                max: some.then_some(self.duration.max),
            },
            longest: self.longest.iter().map(|it| AnomalyReport::of(it, numbered)).collect(),
            over_time: self.over_time.report_some(BegunReport::of),
        }
    }
}

/// Anomalies of one kind, as they are printed.
#[derive(Debug, Serialize)]
pub struct LateReport {
    least: u64,
    late_ns: u64,
    of_median: Option<f64>,
    count: u64,
    packets: u64,
    share: Option<f64>,
    open_begin: bool,
    open_end: bool,
    duration_ns: DurationReport,
    longest: Vec<AnomalyReport>,
    over_time: BinsReport<BegunReport>,
}

/// Anomalies that begin in one bin, as they are printed.
#[derive(Debug, PartialEq, Serialize)]
pub struct BegunReport {
    begin_ns: i128,
    anomalies: u64,
    packets: u64,
    min_ns: u64,
    mean_ns: Option<f64>,
    max_ns: u64,
    longest_ns: u64,
}

impl BegunReport {
    fn of(begin_ns: i128, begun: &Begun) -> Self {
        Self {
            begin_ns,
            anomalies: begun.anomalies,
            packets: begun.latency.count,
            min_ns: begun.latency.min,
            mean_ns: begun.latency.mean(),
            max_ns: begun.latency.max,
            longest_ns: begun.longest_ns,
        }
    }
}

/// How long anomalies last.
#[derive(Debug, Serialize)]
pub struct DurationReport {
    total: u64,
    min: Option<u64>,
    mean: Option<f64>,
    max: Option<u64>,
}

/// One anomaly, as it is printed.
#[derive(Debug, Serialize)]
pub struct AnomalyReport {
    place: u64,
    sequence: Option<u64>,
    packets: u64,
    first_ns: i64,
    last_ns: i64,
    duration_ns: u64,
    min_ns: u64,
    mean_ns: f64,
    max_ns: u64,
    open_begin: bool,
    open_end: bool,
}

impl AnomalyReport {
    fn of(anomaly: &Anomaly, numbered: bool) -> Self {
        let run = &anomaly.run;
        Self {
            place: run.place,
            sequence: numbered.then_some(run.sequence),
            packets: run.latency.count,
            first_ns: run.first_ns,
            last_ns: run.last_ns,
            duration_ns: run.duration_ns(),
            min_ns: run.latency.min,
            mean_ns: run.latency.mean().unwrap_or(0.0),
            max_ns: run.latency.max,
            open_begin: anomaly.open_begin,
            open_end: anomaly.open_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// Packet by packet, as the definition has it.
    fn slow(limit: Limit, latencies: &[i64]) -> Vec<Anomaly> {
        let mut found = Vec::new();
        let late = |at: usize| u64::try_from(latencies[at]).is_ok_and(|it| it >= limit.late_ns);
        for begin in 0..latencies.len() {
            if !late(begin) || (begin > 0 && late(begin - 1)) {
                continue;
            }
            let end = (begin..latencies.len()).find(|&at| !late(at)).unwrap_or(latencies.len());
            if (end - begin) as u64 >= limit.least {
                found.push(Anomaly {
                    run: Run {
                        place: begin as u64,
                        sequence: begin as u64,
                        first_ns: time(begin),
                        last_ns: time(end - 1),
                        latency: Extent::of(&latencies[begin..end]),
                    },
                    open_begin: begin == 0,
                    open_end: end == latencies.len(),
                });
            }
        }
        found
    }

    fn time(at: usize) -> i64 {
        i64::try_from(at).unwrap() * 1000 + 5
    }

    fn quick(limit: Limit, latencies: &[i64], part: usize, chunk: usize) -> Vec<Anomaly> {
        let mut found = Vec::new();
        let mut joined = Joined::new(limit);
        let mut keep = |anomaly| {
            found.push(anomaly);
            Ok::<(), Infallible>(())
        };
        let mut at = 0;
        for part in latencies.chunks(part) {
            let mut runs = Runs::default();
            let mut place = 0;
            for chunk in part.chunks(chunk) {
                let times = (at..at + chunk.len()).map(time).collect::<Vec<_>>();
                let numbers = (at as u64..).take(chunk.len()).collect::<Vec<_>>();
                runs.add(
                    limit,
                    &Packets {
                        place,
                        sequence: &numbers,
                        received_ns: &times,
                        latency_ns: chunk,
                        extent: chunk.iter().all(|&it| it >= 0).then(|| Extent::of(chunk)),
                    },
                );
                at += chunk.len();
                place += chunk.len() as u64;
            }
            joined.add(&runs, &mut keep).unwrap();
        }
        joined.end(&mut keep).unwrap();
        found
    }

    #[test]
    fn all_late_is_one_anomaly_open_at_both_ends() {
        let limit = Limit { least: 2, late_ns: 5 };
        let [anomaly] = quick(limit, &vec![7; 5000], 1000, 300)[..] else { panic!("not one") };
        assert_eq!((anomaly.run.latency.count, anomaly.run.latency.sum), (5000, 35_000));
        assert!(anomaly.open_begin && anomaly.open_end);
    }

    #[test]
    fn the_longest_are_kept_and_all_are_counted() {
        let mut summary = Summary::new(4, 0);
        let limit = Limit { least: 1, late_ns: 1 };
        let latencies = (1..40).flat_map(|count| [vec![1; count], vec![0]].concat());
        for anomaly in slow(limit, &latencies.collect::<Vec<_>>()) {
            summary.add(anomaly);
        }
        let report = summary.report(Asked { limit, of_median: None }, 1000, true);
        assert_eq!((report.count, report.packets), (39, 39 * 40 / 2));
        let longest = report.longest.iter().map(|it| it.packets).collect::<Vec<_>>();
        assert_eq!(longest, (30..40).rev().collect::<Vec<_>>());
        assert_eq!(report.duration_ns.max, Some(38_000));
        // 819 packets, one each 1000 ns: in four bins of 2^18 ns.
        let rows = &report.over_time.rows;
        let of = |what: fn(&BegunReport) -> u64| rows.iter().map(what).collect::<Vec<_>>();
        assert_eq!(of(|it| it.anomalies), [22, 9, 8]);
        assert_eq!(of(|it| it.packets), [253, 243, 284]);
        assert_eq!(of(|it| it.longest_ns), [21_000, 30_000, 38_000]);
        assert!(rows.iter().all(|it| (it.min_ns, it.max_ns) == (1, 1)));
    }

    proptest! {
        #[test]
        fn anomalies_are_those_of_the_definition(
            runs in prop::collection::vec((-2_i64..12, 1_usize..90), 0..80),
            least in 1_u64..5, late_ns in 0_u64..9, part in 1_usize..3000, chunk in 1_usize..=CHUNK
        ) {
            let limit = Limit { least, late_ns };
            let latencies =
                runs.iter().flat_map(|&(value, count)| vec![value; count]).collect::<Vec<_>>();
            prop_assert_eq!(quick(limit, &latencies, part, chunk), slow(limit, &latencies));
        }

        #[test]
        fn short_runs_too(
            latencies in prop::collection::vec(0_i64..3, 0..700),
            least in 1_u64..4, part in 1_usize..200, chunk in 1_usize..100
        ) {
            let limit = Limit { least, late_ns: 2 };
            prop_assert_eq!(quick(limit, &latencies, part, chunk), slow(limit, &latencies));
        }
    }
}
