// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP: connections per second, requests over connections that are kept, and streams.
//!
//! [`message`] is what travels, [`server`] answers it, [`exchange`] asks and waits for answers, with
//! a `pool` that knows where each connection is, and [`stream`] sends as much as it can, or at a
//! rate. [`sources`] are addresses to connect from, `socket` opens sockets and waits for many,
//! `info` asks the kernel for a connection's figures, and [`report`] is what is printed.

pub mod exchange;
mod info;
pub mod message;
mod pool;
pub mod report;
pub mod server;
mod socket;
pub mod sources;
pub mod stream;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::pace::Lateness;
use crate::report::LateReport;

/// Waiting ones look for what is late and for signals so often, nanoseconds.
const TICK_NS: u64 = 50_000_000;
/// So many things are begun before others have their turn.
const TURN: usize = 64;

/// When the first and the last of something was done, and when it was due.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: Option<(u64, u64)>,
    last: (u64, u64),
    count: u64,
}

impl Span {
    fn add(&mut self, now_ns: u64, due_ns: u64) {
        self.first.get_or_insert((now_ns, due_ns));
        self.last = (now_ns, due_ns);
        self.count += 1;
    }

    /// Between the first and the last: by the clock, and by when they were due.
    fn ns(&self) -> (u64, u64) {
        let first = self.first.unwrap_or(self.last);
        (self.last.0.saturating_sub(first.0), self.last.1.saturating_sub(first.1))
    }
}

/// So many a second.
fn rate(count: u64, ns: u64) -> Option<f64> {
    (count > 0 && ns > 0).then(|| count as f64 / seconds(ns))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / crate::clock::NS_PER_SEC as f64
}

fn late(lateness: &Lateness, of: u64, threshold_ns: u64) -> LateReport {
    LateReport {
        threshold_ns,
        count: lateness.count,
        mean_ns: lateness.sum_ns as f64 / of.max(1) as f64,
        max_ns: lateness.max_ns,
    }
}

fn told(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rate_needs_two() {
        let mut span = Span::default();
        assert_eq!(span.ns(), (0, 0));
        span.add(500, 400);
        assert_eq!((span.ns(), rate(span.count - 1, span.ns().0)), ((0, 0), None));
        span.add(1_000_000_500, 500_000_400);
        assert_eq!(span.ns(), (1_000_000_000, 500_000_000));
        assert_eq!(rate(span.count - 1, span.ns().0), Some(1.0));
        assert_eq!(rate(span.count - 1, span.ns().1), Some(2.0));
    }

    proptest! {
        /// What is done at equal distances has the rate of these.
        #[test]
        fn rates_are_of_distances(gap in 1_u64..1 << 40, count in 2_u64..1000, start in 0_u64..1 << 40) {
            let mut span = Span::default();
            for number in 0..count {
                span.add(start + number * gap, number * gap);
            }
            let found = rate(count - 1, span.ns().0).unwrap();
            prop_assert!((found * seconds(gap) - 1.0).abs() < 1e-9);
            prop_assert_eq!(span.ns().0, span.ns().1);
        }
    }
}
