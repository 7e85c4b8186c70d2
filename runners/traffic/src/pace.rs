// SPDX-License-Identifier: GPL-2.0-or-later
//! When each packet is due, and waiting for that moment.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::clock::{NS_PER_SEC, monotonic_ns};

/// An absolute schedule: packet k is due k intervals after the start, whatever happened before.
///
/// A sender that falls behind therefore catches up at once instead of sending less in all.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start_ns: u64,
    rate: u32,
}

impl Schedule {
    /// A schedule of `rate` packets per second from `start_ns` (monotonic); 0 is "always due".
    #[must_use]
    pub fn new(start_ns: u64, rate: u32) -> Self {
        Self { start_ns, rate }
    }

    /// When packet `number` is due, in monotonic nanoseconds. Rounding never adds up.
    #[must_use]
    pub fn due_ns(&self, number: u64) -> u64 {
        if self.rate == 0 {
            return self.start_ns;
        }
        let after = u128::from(number) * u128::from(NS_PER_SEC) / u128::from(self.rate);
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

/// Wait until `due_ns`: sleep up to `spin_ns` before it, then watch the clock.
///
/// Returns early if `stop` is set by a signal.
pub fn wait_until(due_ns: u64, spin_ns: u64, stop: &AtomicBool) {
    let wake_ns = due_ns.saturating_sub(spin_ns);
    while monotonic_ns() < wake_ns && !stop.load(Ordering::Relaxed) {
        let wake = timespec(wake_ns);
        // An absolute sleep cut short by a signal is simply begun again.
        let _interrupted =
            clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &wake);
    }
    while monotonic_ns() < due_ns && !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn timespec(ns: u64) -> TimeSpec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    TimeSpec::new(part(ns / NS_PER_SEC), part(ns % NS_PER_SEC))
}

/// How far behind schedule packets left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lateness {
    /// Packets that left later than the threshold.
    pub count: u64,
    /// Sum over all packets, nanoseconds.
    pub sum_ns: u64,
    /// The worst packet, nanoseconds.
    pub max_ns: u64,
}

impl Lateness {
    /// Account one packet that left `late_ns` after it was due.
    pub fn add(&mut self, late_ns: u64, threshold_ns: u64) {
        self.count += u64::from(late_ns > threshold_ns);
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thirds_do_not_drift() {
        let schedule = Schedule::new(1000, 3);
        assert_eq!(schedule.due_ns(1), 333_334_333);
        assert_eq!(schedule.due_ns(3), 1_000_001_000);
        assert_eq!(schedule.due_ns(3_000_000_000), 1_000_000_000_000_001_000);
    }

    #[test]
    fn waiting_is_never_short() {
        let stop = AtomicBool::new(false);
        for spin_ns in [0, 200_000] {
            let due = monotonic_ns() + 2_000_000;
            wait_until(due, spin_ns, &stop);
            assert!(monotonic_ns() >= due);
        }
    }

    #[test]
    fn stop_ends_the_wait() {
        let stop = AtomicBool::new(true);
        let before = monotonic_ns();
        wait_until(before + 60 * NS_PER_SEC, 0, &stop);
        assert!(monotonic_ns() - before < NS_PER_SEC);
    }

    #[test]
    fn lateness_counts_above_the_threshold_only() {
        let mut lateness = Lateness::default();
        for late in [0, 50, 51, 7] {
            lateness.add(late, 50);
        }
        assert_eq!((lateness.count, lateness.sum_ns, lateness.max_ns), (1, 108, 51));
    }

    proptest! {
        #[test]
        fn schedule_never_steps_back(start in 0_u64..1 << 62, rate: u32, number in 0..u64::MAX) {
            let schedule = Schedule::new(start, rate);
            prop_assert!(schedule.due_ns(number) <= schedule.due_ns(number + 1));
        }
    }
}
