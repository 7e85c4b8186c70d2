// SPDX-License-Identifier: GPL-2.0-or-later
//! When each packet is due, and waiting for that moment.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::{Serialize, Serializer};

use crate::clock::{NS_PER_SEC, monotonic_ns, nanoseconds};
use crate::generator::{Generator, Random};

/// Digits behind the point of a rate.
const DIGITS: usize = 6;
const MILLION: u64 = 1_000_000;
/// The highest rate: one packet every quarter of a nanosecond.
const MOST: u64 = u32::MAX as u64;

/// Packets a second, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// So many packets a second.
    #[must_use]
    pub fn whole(packets: u32) -> Self {
        Self(u64::from(packets) * MILLION)
    }

    /// Whether it is none.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| {
            let all = !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
            all.then(|| text.parse::<u64>().ok()).flatten()
        };
        let whole = digits(whole).filter(|&whole| whole <= MOST);
        let part = (part.len() <= DIGITS).then(|| digits(&format!("{part:0<DIGITS$}"))).flatten();
        match (whole, part.filter(|_| !text.ends_with('.'))) {
            (Some(whole), Some(part)) => Ok(Self(whole * MILLION + part)),
            _ => Err("expected packets a second, such as 10000 or 0.5".to_owned()),
        }
    }
}

impl Serialize for Rate {
    /// A whole number has no point.
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        if self.0 % MILLION == 0 {
            into.serialize_u64(self.0 / MILLION)
        } else {
            into.serialize_f64(self.0 as f64 / MILLION as f64)
        }
    }
}

/// What is between packets.
pub enum Gaps {
    /// Nothing: as fast as possible.
    None,
    /// So many packets a second, at equal distances.
    Rate(Rate),
    /// Nanoseconds of a generator; below zero is zero.
    Drawn(Box<dyn Generator>),
}

/// How many seconds after its start a schedule has another rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rate from then on.
    pub rate: Rate,
    /// When the first packet of that rate is due, after the very first one.
    pub after: Duration,
}

/// Times at equal distances. Rounding never adds up, and no packet needs a division.
struct Even {
    next_ns: u64,
    /// From one to the next: nanoseconds, and a part of one in units of `of`.
    gap_ns: u64,
    gap_part: u64,
    of: u64,
    part: u64,
}

impl Even {
    fn new(start_ns: u64, rate: Rate) -> Self {
        let second = NS_PER_SEC * MILLION;
        let of = rate.0.max(1);
        Self { next_ns: start_ns, gap_ns: second / of, gap_part: second % of, of, part: 0 }
    }

    fn next_ns(&mut self) -> u64 {
        let now_ns = self.next_ns;
        self.part += self.gap_part;
        let carry = u64::from(self.part >= self.of);
        self.part -= carry * self.of;
        self.next_ns = now_ns.saturating_add(self.gap_ns + carry);
        now_ns
    }
}

enum Times {
    AtOnce,
    Even(Even),
    /// Of a generator: what was drawn, from the start, in nanoseconds. A double is exact for a
    /// hundred days of them.
    Drawn(Box<dyn Generator>, f64),
}

/// An absolute schedule: each packet has its time from the start on, whatever happened before.
///
/// A sender that falls behind therefore catches up at once instead of sending less in all.
pub struct Schedule {
    start_ns: u64,
    times: Times,
    random: Random,
    number: u64,
    /// A step that is still to come.
    step: Option<Step>,
    stepped: Option<u64>,
}

impl Schedule {
    /// A schedule from `start_ns` on (monotonic).
    #[must_use]
    pub fn new(start_ns: u64, gaps: Gaps, random: Random) -> Self {
        let times = match gaps {
            Gaps::None => Times::AtOnce,
            Gaps::Rate(rate) => Times::Even(Even::new(start_ns, rate)),
            Gaps::Drawn(generator) => Times::Drawn(generator, 0.0),
        };
        Self { start_ns, times, random, number: 0, step: None, stepped: None }
    }

    /// The same with another rate from a moment on.
    #[must_use]
    pub fn then(self, step: Option<Step>) -> Self {
        Self { step, ..self }
    }

    /// The number of the first packet of the other rate, if its time was asked for.
    #[must_use]
    pub fn stepped(&self) -> Option<u64> {
        self.stepped
    }

    /// When the next packet is due, in monotonic nanoseconds. Rounding never adds up.
    pub fn next_ns(&mut self) -> u64 {
        let mut due_ns = match &mut self.times {
            Times::AtOnce => self.start_ns,
            Times::Even(even) => even.next_ns(),
            Times::Drawn(generator, offset) => {
                let after_ns = whole(*offset);
                *offset += generator.draw(&mut self.random).max(0.0);
                self.start_ns.saturating_add(after_ns)
            }
        };
        if let Some(step) = self.step {
            let from_ns = self.start_ns.saturating_add(nanoseconds(step.after));
            if due_ns >= from_ns {
                self.step = None;
                self.stepped = Some(self.number);
                let mut even = Even::new(from_ns, step.rate);
                due_ns = even.next_ns();
                self.times = Times::Even(even);
            }
        }
        self.number += 1;
        due_ns
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is not below zero, and what is too large becomes the largest"
)]
fn whole(nanoseconds: f64) -> u64 {
    nanoseconds as u64
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
        let found = dues(Gaps::Rate(Rate::whole(3)), 30_001);
        assert_eq!((found[0], found[1], found[3]), (1000, 333_334_333, 1_000_001_000));
        assert_eq!(found[30_000], 10_000_000_001_000);
    }

    #[test]
    fn rates_have_fractions() {
        for (text, json) in [
            ("10000", "10000"),
            ("0.5", "0.5"),
            ("148809.523809", "148809.523809"),
            ("1.0", "1"),
            ("0", "0"),
            ("4294967295", "4294967295"),
        ] {
            let rate = text.parse::<Rate>().unwrap();
            assert_eq!(serde_json::to_string(&rate).unwrap(), json);
        }
        for text in ["", ".5", "5.", "-1", "+1", "1e6", "0.1234567", "4294967296", "nan", "1.-1"] {
            assert!(text.parse::<Rate>().is_err_and(|why| why.contains("a second")), "{text}");
        }
        assert_eq!(dues(Gaps::Rate("0.5".parse().unwrap()), 2), [1000, 2_000_001_000]);
    }

    #[test]
    fn a_step_has_no_gap() {
        let of = |rate: u32, then: u32, after_ns, count| {
            let step = Step { rate: Rate::whole(then), after: Duration::from_nanos(after_ns) };
            let gaps = Gaps::Rate(Rate::whole(rate));
            let mut schedule = Schedule::new(1000, gaps, Random::seed_from_u64(1)).then(Some(step));
            let dues = (0..count).map(|_| schedule.next_ns() - 1000).collect::<Vec<_>>();
            (dues, schedule.stepped())
        };
        let ms = 1_000_000;
        // 1 kpps for 3 ms: packets 0, 1 and 2. The next one is due when the rate changes.
        let (dues, stepped) = of(1000, 2000, 3 * ms, 6);
        assert_eq!(dues, [0, ms, 2 * ms, 3 * ms, 3_500_000, 4 * ms]);
        assert_eq!(stepped, Some(3));
        // Also where the old rate had none for this moment, and to a lower rate.
        let (dues, stepped) = of(1000, 500, 2_500_000, 5);
        assert_eq!(dues, [0, ms, 2 * ms, 2_500_000, 4_500_000]);
        assert_eq!(stepped, Some(3));
        assert_eq!(of(1000, 500, 10 * ms, 10).1, None);
        assert_eq!(of(1000, 500, 0, 3), (vec![0, 2 * ms, 4 * ms], Some(0)));
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
        /// Each due time is the exact one, rounded down, whatever the rate.
        #[test]
        fn rounding_never_adds_up(
            start in 0_u64..1 << 62, millionths in prop_oneof![1..1_u64 << 20, 1..MOST * MILLION]
        ) {
            let gaps = Gaps::Rate(Rate(millionths));
            let mut schedule = Schedule::new(start, gaps, Random::seed_from_u64(1));
            for number in 0..100_u128 {
                let after = number * u128::from(NS_PER_SEC * MILLION) / u128::from(millionths);
                prop_assert_eq!(schedule.next_ns(), start + u64::try_from(after).unwrap());
            }
        }

        #[test]
        fn a_step_never_steps_back(
            rate in 1_u32..1_000_000, then in 1_u32..1_000_000, after in 0_u64..1_000_000
        ) {
            let step = Step { rate: Rate::whole(then), after: Duration::from_nanos(after) };
            let gaps = Gaps::Rate(Rate::whole(rate));
            let mut schedule = Schedule::new(7, gaps, Random::seed_from_u64(1)).then(Some(step));
            let found = (0..1000).map(|_| schedule.next_ns()).collect::<Vec<_>>();
            prop_assert!(found.is_sorted());
            let stepped = schedule.stepped().map(|number| usize::try_from(number).unwrap());
            prop_assert_eq!(found.iter().position(|&due| due >= 7 + after), stepped);
        }

        #[test]
        fn any_text_is_a_rate_or_an_error(text in "[0-9.e+-]{0,12}") {
            if let Ok(rate) = text.parse::<Rate>() {
                let json = serde_json::to_string(&rate).unwrap();
                let (said, meant) = (json.parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
                prop_assert!((said - meant).abs() < 1e-6, "{} {}", said, meant);
            }
        }
    }
}
