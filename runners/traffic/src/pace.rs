// SPDX-License-Identifier: GPL-2.0-or-later
//! When each packet is due, and waiting for that moment.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::clock::{NS_PER_SEC, monotonic_ns};
use crate::generator::{Generator, Random};

/// What is between packets.
pub enum Gaps {
    /// Nothing: as fast as possible.
    None,
    /// So many packets a second, at equal distances.
    Rate(u32),
    /// Nanoseconds of a generator; below zero is zero.
    Drawn(Box<dyn Generator>),
}

/// An absolute schedule: each packet has its time from the start on, whatever happened before.
///
/// A sender that falls behind therefore catches up at once instead of sending less in all.
pub struct Schedule {
    start_ns: u64,
    gaps: Gaps,
    random: Random,
    number: u64,
    /// Of what was drawn: from the start, nanoseconds. A double is exact for a hundred days of them.
    offset: f64,
}

impl Schedule {
    /// A schedule from `start_ns` on (monotonic).
    #[must_use]
    pub fn new(start_ns: u64, gaps: Gaps, random: Random) -> Self {
        Self { start_ns, gaps, random, number: 0, offset: 0.0 }
    }

    /// When the next packet is due, in monotonic nanoseconds. Rounding never adds up.
    pub fn next_ns(&mut self) -> u64 {
        let number = self.number;
        self.number += 1;
        let after = match &mut self.gaps {
            Gaps::None => 0,
            Gaps::Rate(rate) => u128::from(number) * u128::from(NS_PER_SEC) / u128::from(*rate),
            Gaps::Drawn(generator) => {
                let at = self.offset;
                self.offset += generator.draw(&mut self.random).max(0.0);
                whole(at)
            }
        };
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is not below zero, and what is too large becomes the largest"
)]
fn whole(nanoseconds: f64) -> u128 {
    nanoseconds as u128
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
    pub sum_ns: u128,
    /// The worst packet, nanoseconds.
    pub max_ns: u64,
}

impl Lateness {
    /// Account one packet that left `late_ns` after it was due.
    pub fn add(&mut self, late_ns: u64, threshold_ns: u64) {
        self.count += u64::from(late_ns > threshold_ns);
        self.sum_ns += u128::from(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Unit, parse};
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn dues(gaps: Gaps, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(1000, gaps, Random::seed_from_u64(1));
        (0..count).map(|_| schedule.next_ns()).collect()
    }

    #[test]
    fn thirds_do_not_drift() {
        let found = dues(Gaps::Rate(3), 30_001);
        assert_eq!((found[0], found[1], found[3]), (1000, 333_334_333, 1_000_001_000));
        assert_eq!(found[30_000], 10_000_000_001_000);
    }

    #[test]
    fn fractions_of_nanoseconds_add_up() {
        let drawn = |text| Gaps::Drawn(parse(text, Unit::Time).unwrap());
        assert_eq!(
            dues(drawn("constant:.25ns"), 9),
            [1000, 1000, 1000, 1000, 1001, 1001, 1001, 1001, 1002]
        );
        assert_eq!(dues(drawn("burst:2,1us"), 4), [1000, 1000, 2000, 2000]);
        // What a normal distribution has below zero is no step back.
        assert!(dues(drawn("gaussian:0s,1us"), 1000).is_sorted());
        assert_eq!(dues(Gaps::None, 2), [1000, 1000]);
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
        fn schedule_never_steps_back(start in 0_u64..1 << 62, rate in 1..u32::MAX) {
            let mut schedule = Schedule::new(start, Gaps::Rate(rate), Random::seed_from_u64(1));
            let found: Vec<_> = (0..100).map(|_| schedule.next_ns()).collect();
            prop_assert!(found.is_sorted());
        }
    }
}
