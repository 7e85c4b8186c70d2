// SPDX-License-Identifier: GPL-2.0-or-later
//! When packets left and when they were due: what rates and lateness are reported of.

use std::time::Duration;

use crate::clock::{NS_PER_SEC, nanoseconds};
use crate::pace::Lateness;
use crate::report::{LateReport, PaceReport};

/// When packets left, and when they were due.
#[derive(Debug)]
pub struct Departures {
    /// Packets that leave later than this are counted, nanoseconds.
    threshold_ns: u64,
    late: Lateness,
    /// When the first packet left, and when it was due.
    first: Option<(u64, u64)>,
    /// When the last one was with the kernel, and when it was due.
    last: (u64, u64),
}

impl Departures {
    /// Of no packet; those later than `late` will be counted.
    #[must_use]
    pub fn new(late: Duration) -> Self {
        Self {
            threshold_ns: nanoseconds(late),
            late: Lateness::default(),
            first: None,
            last: (0, 0),
        }
    }

    /// A packet is given to the kernel now.
    pub fn leaves(&mut self, now_ns: u64, due_ns: u64) {
        self.late.add(now_ns.saturating_sub(due_ns), self.threshold_ns);
        self.first.get_or_insert((now_ns, due_ns));
        self.last.1 = due_ns;
    }

    /// The kernel has it, or them.
    pub fn left(&mut self, now_ns: u64) {
        self.last.0 = now_ns;
    }

    /// Rates, from the first to the last packet: of those tried by their times, and of those sent.
    #[must_use]
    pub fn pace(&self, attempted: u64, sent: u64) -> PaceReport {
        let first = self.first.unwrap_or(self.last);
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / NS_PER_SEC as f64;
        let rate = |packets: u64, seconds: f64| {
            (attempted > 1 && seconds > 0.0).then(|| packets.saturating_sub(1) as f64 / seconds)
        };
        let took = seconds(first.0, self.last.0);
        PaceReport {
            rate_planned: rate(attempted, seconds(first.1, self.last.1)),
            rate_reached: rate(sent, took),
            seconds: took,
        }
    }

    /// How far behind their times packets were.
    #[must_use]
    pub fn late(&self, attempted: u64) -> LateReport {
        LateReport {
            threshold_ns: self.threshold_ns,
            count: self.late.count,
            mean_ns: self.late.sum_ns as f64 / attempted.max(1) as f64,
            max_ns: self.late.max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_first_packet_to_the_last() {
        let mut departures = Departures::new(Duration::from_nanos(10));
        let none = departures.pace(0, 0);
        assert_eq!((none.rate_planned, none.rate_reached), (None, None));
        let ms = 1_000_000;
        for (now, due) in [(ms, ms), (3 * ms + 10, 3 * ms), (5 * ms + 11, 5 * ms)] {
            departures.leaves(now, due);
            departures.left(now + ms);
        }
        // Of three packets, one was refused.
        let found = departures.pace(3, 2);
        assert_eq!(found.rate_planned, Some(500.0));
        assert!((found.seconds - 0.005_000_011).abs() < 1e-12, "{found:?}");
        assert!((found.rate_reached.unwrap_or(0.0) - 200.0).abs() < 1e-3, "{found:?}");
        let late = departures.late(3);
        assert_eq!((late.threshold_ns, late.count, late.max_ns), (10, 1, 11));
        assert!((late.mean_ns - 7.0).abs() < 1e-9, "{late:?}");
    }
}
