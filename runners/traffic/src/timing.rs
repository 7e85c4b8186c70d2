// SPDX-License-Identifier: GPL-2.0-or-later
//! What the packets' times were: inter-arrival time, jitter and one-way delay.
//!
//! All are of packets seen for the first time, in the order in which they came, and of the whole
//! transmission as one stream. Jitter is the absolute difference of the one-way delays of two
//! successive packets (RFC 4689, section 3.2.5): by how much the clocks of sender and receiver differ
//! cancels out. The one-way delay itself is known where both are one clock, and where somebody knows
//! what they differ by ([`crate::clock_offset`]).

use nix::time::{ClockId, clock_gettime};

use crate::clock::{NS_PER_SEC, monotonic_ns, realtime_ns};
use crate::distribution::Distribution;
use crate::header::{Clock, Header};

const NOT_SAID: &str = "the clocks of sender and receiver may differ; if both are on one machine, \
                        receive with --same-clock, and if not, with --clock-ahead, as `clock` on the \
                        sender says";
const OTHER_CLOCK: &str = "the sender's stamps are of CLOCK_MONOTONIC, the receiver's of \
                           CLOCK_REALTIME, and their difference is not known to a nanosecond";
const ONLY_REALTIME: &str =
    "the sender's stamps are not of CLOCK_REALTIME, which --clock-ahead is of";

/// What is known of the clocks of sender and receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// Nothing.
    #[default]
    Apart,
    /// They are on one machine.
    One,
    /// How far the receiver's is ahead.
    Ahead(Line),
}

/// How far the receiver's `CLOCK_REALTIME` is ahead of the sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// By so much, nanoseconds,
    pub ahead_ns: i64,
    /// at this time of the receiver's,
    pub at_ns: u64,
    /// and by so much more with each second, nanoseconds.
    pub drift_ppb: i64,
}

impl Line {
    /// How far it is ahead at a time of the receiver's clock.
    fn at(&self, now_ns: u64) -> i128 {
        let since = i128::from(now_ns) - i128::from(self.at_ns);
        i128::from(self.ahead_ns) + since * i128::from(self.drift_ppb) / i128::from(NS_PER_SEC)
    }
}

/// Times of one transmission.
pub struct Timing {
    clocks: Clocks,
    /// How far `CLOCK_TAI` is ahead of the receiver's clock.
    tai_offset_ns: i128,
    /// Of `CLOCK_MONOTONIC`: both clocks when the first stamp came.
    first: Option<(u64, u64)>,
    /// Clock of the last packet, when it came, and how long it took if both clocks were one.
    last: Option<(Clock, u64, i128)>,
    /// What is to be between two packets, nanoseconds.
    interval_ns: Option<f64>,
    inter_arrival: Distribution,
    inter_arrival_error: Distribution,
    jitter: Distribution,
    delay: Distribution,
    /// Packets stamped by a clock that the receiver does not stamp by.
    unlike: u64,
    stepping: Stepping,
}

impl Timing {
    /// Begin; `clocks` is the caller's word, and `interval_ns` what was asked for between two packets,
    /// if that is one time.
    #[must_use]
    pub fn new(clocks: Clocks, interval_ns: Option<f64>) -> Self {
        Self {
            clocks,
            tai_offset_ns: tai_offset_ns(),
            first: None,
            last: None,
            interval_ns,
            inter_arrival: Distribution::default(),
            inter_arrival_error: Distribution::default(),
            jitter: Distribution::default(),
            delay: Distribution::default(),
            unlike: 0,
            stepping: Stepping::begin(),
        }
    }

    /// The send time in full of a packet that came at `received_ns`.
    ///
    /// `CLOCK_MONOTONIC` says nothing about another machine's: there the first stamp is taken for
    /// the one nearest to this machine's clock, and the rest follows from it.
    pub fn sent_ns(&mut self, header: &Header, received_ns: u64) -> u64 {
        if header.clock != Clock::Monotonic {
            // A stamp has the lower bits of a time that is near this one, by the sender's clock.
            let ahead = match self.clocks {
                Clocks::Ahead(line) => line.at(received_ns),
                Clocks::Apart | Clocks::One => 0,
            };
            let near = i128::from(received_ns) - ahead;
            return header.sent_ns(u64::try_from(near).unwrap_or(received_ns));
        }
        let (sent, received) =
            *self.first.get_or_insert_with(|| (header.sent_ns(monotonic_ns()), received_ns));
        header.sent_ns(sent.saturating_add(received_ns.saturating_sub(received)))
    }

    /// Take in a packet that was seen for the first time.
    pub fn observe(&mut self, clock: Clock, sent_ns: u64, received_ns: u64) {
        let took = i128::from(received_ns) - i128::from(sent_ns);
        if let Some((last_clock, last_received_ns, last_took)) = self.last {
            let between = i128::from(received_ns) - i128::from(last_received_ns);
            self.inter_arrival.add_signed(between);
            if let Some(asked) = self.interval_ns {
                self.inter_arrival_error.add_signed(error_ns(between, asked));
            }
            if clock == last_clock {
                self.jitter.add_signed((took - last_took).abs());
            }
        }
        self.last = Some((clock, received_ns, took));
        match (clock, self.clocks) {
            (_, Clocks::Apart) => (),
            (Clock::Realtime, Clocks::One) => self.delay.add_signed(took),
            (Clock::Tai, Clocks::One) => self.delay.add_signed(took + self.tai_offset_ns),
            (Clock::Realtime, Clocks::Ahead(line)) => {
                self.delay.add_signed(took - line.at(received_ns));
            }
            // The other machine may not know how far its atomic time is from its real time.
            (Clock::Monotonic, _) | (Clock::Tai, Clocks::Ahead(_)) => self.unlike += 1,
        }
    }

    /// Times between packets that came one after the other.
    #[must_use]
    pub fn inter_arrival(&self) -> &Distribution {
        &self.inter_arrival
    }

    /// How far these were from the interval that was asked for; none without one.
    #[must_use]
    pub fn inter_arrival_error(&self) -> Option<&Distribution> {
        self.interval_ns.map(|_| &self.inter_arrival_error)
    }

    /// Absolute differences of successive one-way delays.
    #[must_use]
    pub fn jitter(&self) -> &Distribution {
        &self.jitter
    }

    /// One-way delays.
    ///
    /// # Errors
    /// Why they are not known.
    pub fn delay(&self) -> Result<&Distribution, &'static str> {
        match self.clocks {
            Clocks::Apart => Err(NOT_SAID),
            Clocks::One if self.unlike > 0 => Err(OTHER_CLOCK),
            Clocks::Ahead(_) if self.unlike > 0 => Err(ONLY_REALTIME),
            Clocks::One | Clocks::Ahead(_) => Ok(&self.delay),
        }
    }

    /// By how much `CLOCK_REALTIME` was set since the beginning.
    #[must_use]
    pub fn stepped_ns(&self) -> i64 {
        self.stepping.so_far_ns()
    }
}

/// How far a time between packets is from what was asked for, in whole nanoseconds.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "no time between two packets is near the largest number"
)]
fn error_ns(between_ns: i128, asked_ns: f64) -> i128 {
    (between_ns as f64 - asked_ns).abs().round() as i128
}

/// Sees whether `CLOCK_REALTIME` is set; slewing moves `CLOCK_MONOTONIC`, too, and is none.
pub(crate) struct Stepping {
    ahead_ns: i128,
}

impl Stepping {
    /// Less than this is how exactly two clocks can be read together, and no step.
    const LEAST_NS: i128 = 100_000;

    pub(crate) fn begin() -> Self {
        Self { ahead_ns: realtime_ahead_ns() }
    }

    pub(crate) fn so_far_ns(&self) -> i64 {
        let by = realtime_ahead_ns() - self.ahead_ns;
        if by.abs() < Self::LEAST_NS { 0 } else { i64::try_from(by).unwrap_or(i64::MAX) }
    }
}

/// How far real time is ahead of `CLOCK_MONOTONIC`: of some readings the one that took least.
fn realtime_ahead_ns() -> i128 {
    let read = || {
        let (before, now, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
        let took = after - before;
        (took, i128::from(now) - i128::from(before + took / 2))
    };
    (0..16).map(|_| read()).min().map_or(0, |(_, ahead)| ahead)
}

/// How far `CLOCK_TAI` is ahead of real time: whole seconds, by definition.
#[must_use]
pub fn tai_offset_ns() -> i128 {
    let tai = clock_gettime(ClockId::CLOCK_TAI).map_or(0, |now| {
        i128::from(now.tv_sec()) * i128::from(NS_PER_SEC) + i128::from(now.tv_nsec())
    });
    let second = i128::from(NS_PER_SEC);
    let ahead = tai - i128::from(realtime_ns());
    (ahead + second / 2).div_euclid(second) * second
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sent every microsecond from 1970 on, as the sender's clock has it.
    fn timing(clocks: Clocks, arrivals: &[(u64, u64)]) -> Timing {
        let mut timing = Timing::new(clocks, Some(1000.0));
        for &(sent_ns, received_ns) in arrivals {
            timing.observe(Clock::Realtime, sent_ns, received_ns);
        }
        timing
    }

    #[test]
    fn figures_of_three_packets() {
        let timing = timing(Clocks::One, &[(0, 100), (1000, 1150), (2000, 2050)]);
        let [between, jitter, delay] =
            [timing.inter_arrival(), timing.jitter(), timing.delay().unwrap()]
                .map(Distribution::report);
        assert_eq!((between.count, between.min_ns, between.max_ns), (2, Some(900), Some(1050)));
        assert_eq!((jitter.count, jitter.min_ns, jitter.max_ns), (2, Some(50), Some(100)));
        assert_eq!((delay.count, delay.mean_ns, delay.sd_ns), (3, Some(100.0), Some(50.0)));
        // They came 1050 and 900 ns after one another, and were to come every microsecond.
        let error = timing.inter_arrival_error().unwrap().report();
        assert_eq!((error.count, error.min_ns, error.max_ns), (2, Some(50), Some(100)));
        assert!(Timing::new(Clocks::One, None).inter_arrival_error().is_none());
    }

    #[test]
    fn a_delay_needs_one_clock() {
        assert_eq!(timing(Clocks::Apart, &[(0, 100)]).delay().unwrap_err(), NOT_SAID);
        let mut other = timing(Clocks::One, &[(0, 100)]);
        other.observe(Clock::Monotonic, 5, 200);
        assert_eq!(other.delay().unwrap_err(), OTHER_CLOCK);
        // Of two clocks, there is no difference of delays either.
        assert_eq!((other.jitter().report().count, other.inter_arrival().report().count), (0, 1));
    }

    #[test]
    fn a_clock_that_is_ahead_and_drifts_is_taken_off() {
        // By 500 at the first packet, and by 20 more with each second.
        let line = Line { ahead_ns: 500, at_ns: 1_000, drift_ppb: 20 };
        let second = 1_000_000_000;
        let arrivals =
            [(470, 1_000), (second + 450, second + 1_000), (2 * second, 2 * second + 539)];
        let delay = timing(Clocks::Ahead(line), &arrivals).delay().unwrap().report();
        // 530, 550 and 539 by the two clocks, less 500, 520 and 539.
        assert_eq!((delay.count, delay.min_ns, delay.max_ns), (3, Some(0), Some(30)));
        let mut other = timing(Clocks::Ahead(line), &[(0, 1_000)]);
        other.observe(Clock::Tai, 5, 200);
        assert_eq!(other.delay().unwrap_err(), ONLY_REALTIME);
    }

    #[test]
    fn a_clock_that_is_ahead_by_years_is_taken_off() {
        let years = 50 * 365 * 86_400 * 1_000_000_000_i64;
        let now = realtime_ns();
        for ahead_ns in [years, -years] {
            let line = Line { ahead_ns, at_ns: now, drift_ppb: 0 };
            let mut timing = Timing::new(Clocks::Ahead(line), None);
            let sent_ns = now.checked_add_signed(-ahead_ns).unwrap() - 700;
            let stamp = sent_ns & ((1 << 48) - 1);
            let clock = Clock::Realtime;
            let header = Header { transmission: 1, sequence: 0, pktgen: false, clock, stamp };
            assert_eq!(timing.sent_ns(&header, now), sent_ns);
            timing.observe(clock, sent_ns, now);
            assert_eq!(timing.delay().unwrap().report().max_ns, Some(700));
        }
    }

    #[test]
    fn leap_seconds_are_not_in_the_delay() {
        let mut timing = timing(Clocks::One, &[]);
        let now = realtime_ns();
        let ahead = u64::try_from(tai_offset_ns()).unwrap();
        timing.observe(Clock::Tai, now + ahead, now + 300);
        assert_eq!(timing.delay().unwrap().report().max_ns, Some(300));
    }

    #[test]
    fn a_monotonic_clock_of_another_machine_does_not_jump() {
        let mut timing = Timing::new(Clocks::Apart, None);
        // Nearly as far away as the bits of a stamp reach: some of the next would be nearer elsewhere.
        let far = monotonic_ns() + (1 << 47) - 1000;
        let mut header = Header {
            transmission: 1,
            sequence: 0,
            pktgen: false,
            clock: Clock::Monotonic,
            stamp: 0,
        };
        for at in [0, 1_000_000_000_000, 2_000_000] {
            header.stamp = (far + at) & ((1 << 48) - 1);
            assert_eq!(timing.sent_ns(&header, (1 << 60) + at), far + at);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_seen() {
        assert_eq!(Stepping::begin().so_far_ns(), 0);
        for by in [5_000_000_000, -5_000_000_000_i64] {
            let ahead_ns = realtime_ahead_ns() - i128::from(by);
            // Another program may really set it, by less.
            assert!((Stepping { ahead_ns }.so_far_ns() - by).abs() < 1_000_000_000);
        }
    }

    proptest! {
        /// Whatever the clocks differ by.
        #[test]
        fn an_offset_of_the_clocks_cancels_out(
            offset in 0_u64..1 << 60,
            times in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 40), 0..50)
        ) {
            let moved = times.iter().map(|&(sent, got)| (sent, got + offset)).collect::<Vec<_>>();
            let (here, there) = (timing(Clocks::Apart, &times), timing(Clocks::Apart, &moved));
            prop_assert_eq!(here.jitter().report(), there.jitter().report());
            prop_assert_eq!(here.inter_arrival().report(), there.inter_arrival().report());
        }
    }
}
