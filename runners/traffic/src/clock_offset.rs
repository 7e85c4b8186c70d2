// SPDX-License-Identifier: GPL-2.0-or-later
//! How far another machine's clock is ahead of this one's, by probes that its echo sends back.
//!
//! No packet arrives before it was sent. So the other clock is ahead by no more than what lies between
//! a probe's sending, by this clock, and its arrival, by the other; and by no less than what lies
//! between its return, by this clock, and its sending back, by the other, with the sign turned round.
//! The narrowest of many such bounds are reported, each with its time. Nothing is supposed of how
//! long one way takes and how long the other; half of what lies between the bounds is how far
//! the middle may be off.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use crate::batch::{Batch, Datagram};
use crate::clock::{monotonic_ns, nanoseconds, realtime_ns};
use crate::clock_probe::{self, Answer, Kept};
use crate::errors::Errors;
use crate::header::{Clock, Header};
use crate::pace::wait_until;
use crate::report::{AheadReport, BoundReport, ClockReport, KeptReport, SCHEMA};
use crate::socket::{TICK, open_sender};
use crate::timing::Stepping;

/// No two clocks drift apart by more while probes run: crystals are within 50 millionths of what they
/// say, and what sets a clock right turns it by no more than 500 (RFC 5905). `clock_lines.py` has the
/// same.
pub const MOST_DRIFT_PPB: u64 = 600_000;
/// If none of the first so many probes comes back, no more are sent.
const ENOUGH: u64 = 10;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Address and port of the echo.
    pub to: SocketAddr,
    /// Probes.
    pub count: u32,
    /// Least time from one to the next.
    pub gap: Duration,
    /// Longest time to wait for one to come back.
    pub wait: Duration,
    /// Number of this transmission in each header.
    pub transmission: u16,
}

/// By how much the other clock is ahead at most, or at least, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// By this machine's `CLOCK_REALTIME`, nanoseconds.
    pub at_ns: u64,
    /// Nanoseconds.
    pub ahead_ns: i64,
}

/// By one bound the clock is ahead by more than the other allows: a clock was set meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// The narrowest bounds of some probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The other clock is ahead by no more.
    pub most: Option<Bound>,
    /// The other clock is ahead by no less.
    pub least: Option<Bound>,
}

impl Bounds {
    /// Take in a probe that came back: when it was sent and came here, and what the echo says.
    pub fn add(&mut self, sent_ns: u64, answer: &Answer, returned_ns: u64) {
        let most = Bound { at_ns: sent_ns, ahead_ns: difference(answer.received_ns, sent_ns) };
        let least = Bound { at_ns: returned_ns, ahead_ns: difference(answer.sent_ns, returned_ns) };
        if self.most.is_none_or(|known| most.ahead_ns < known.ahead_ns) {
            self.most = Some(most);
        }
        if self.least.is_none_or(|known| least.ahead_ns > known.ahead_ns) {
            self.least = Some(least);
        }
    }

    /// The moment between both; 0 without a probe.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.most.zip(self.least).map_or(0, |(most, least)| most.at_ns.midpoint(least.at_ns))
    }

    /// The middle of both, and how far that may be off; none without a probe.
    ///
    /// # Errors
    /// If one bound contradicts the other.
    #[must_use]
    pub fn middle(&self) -> Option<Result<(i64, u64), Contradiction>> {
        let (most, least) = (self.most?, self.least?);
        // They are of two times, and the clocks may have drifted between them.
        let apart = u128::from(most.at_ns.abs_diff(least.at_ns)) * u128::from(MOST_DRIFT_PPB);
        let drift = i128::try_from(apart / 1_000_000_000).unwrap_or(i128::MAX / 4);
        let wide = i128::from(most.ahead_ns) - i128::from(least.ahead_ns);
        // The middle may be off by half of what lies between the bounds, at the middle of their times; at
        // either of these by half of the drift more, which is the other half's again for the other bound.
        let off = u64::try_from(wide.div_euclid(2) + 1 + drift);
        let middle = (i128::from(most.ahead_ns) + i128::from(least.ahead_ns)).div_euclid(2);
        Some(match off {
            Ok(off) if wide + drift >= 0 => Ok((i64::try_from(middle).unwrap_or(i64::MAX), off)),
            _ => Err(Contradiction),
        })
    }
}

/// What lies between two times, in as many bits as there are: 292 years.
fn difference(later_ns: u64, earlier_ns: u64) -> i64 {
    let between = i128::from(later_ns) - i128::from(earlier_ns);
    i64::try_from(between).unwrap_or(if between < 0 { i64::MIN } else { i64::MAX })
}

/// Send probes and take in what comes back, until all are sent or it is told to stop.
///
/// # Errors
/// A socket that cannot be opened, or fails. Probes that are refused or lost are part of the report.
pub fn run(plan: &Plan, stop: &AtomicBool) -> io::Result<ClockReport> {
    let socket = open_sender(plan.to, 0)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    socket.set_read_timeout(Some(plan.wait.min(TICK)))?;
    let stepping = Stepping::begin();
    let mut probes = Probes::new(plan, &socket);
    let begun_ns = monotonic_ns();
    for number in 0..u64::from(plan.count) {
        wait_until(begun_ns + number * nanoseconds(plan.gap), 0, stop);
        if stop.load(Ordering::Relaxed) || (number >= ENOUGH && probes.returned == 0) {
            break;
        }
        probes.probe(number, stop)?;
    }
    Ok(probes.report(&stepping))
}

struct Probes<'a> {
    plan: &'a Plan,
    socket: &'a UdpSocket,
    batch: Batch,
    /// When each was sent.
    sent_ns: Vec<u64>,
    errors: Errors,
    unsent: u64,
    returned: u64,
    answered: u64,
    not_by_kernel: u64,
    bounds: Bounds,
    shortest_ns: Option<u64>,
    far: Option<Kept>,
}

impl<'a> Probes<'a> {
    fn new(plan: &'a Plan, socket: &'a UdpSocket) -> Self {
        Self {
            plan,
            socket,
            batch: Batch::default(),
            sent_ns: Vec::new(),
            errors: Errors::default(),
            unsent: 0,
            returned: 0,
            answered: 0,
            not_by_kernel: 0,
            bounds: Bounds::default(),
            shortest_ns: None,
            far: None,
        }
    }

    /// Send one, and take in what comes until it is back or late.
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> io::Result<()> {
        let mut payload = [0; clock_probe::LEN];
        let head = payload.first_chunk_mut().expect("a probe holds the header");
        Header {
            transmission: self.plan.transmission,
            sequence: number,
            pktgen: false,
            clock: Clock::Realtime,
            stamp: 0,
        }
        .write(head);
        let sent_ns = realtime_ns();
        Header::stamp(head, sent_ns);
        clock_probe::ask(&mut payload);
        self.sent_ns.push(sent_ns);
        if let Err(error) = self.socket.send(&payload) {
            let number = error.raw_os_error().unwrap_or(0);
            self.errors.add(Errno::from_raw(number), 1);
            self.unsent += 1;
            return Ok(());
        }
        let late_ns = monotonic_ns() + nanoseconds(self.plan.wait);
        let before = self.returned;
        // Without the batch, `self` can take in what is in it.
        let mut batch = std::mem::take(&mut self.batch);
        let waits = || monotonic_ns() < late_ns && !stop.load(Ordering::Relaxed);
        while self.returned == before && waits() {
            match batch.receive(self.socket) {
                Ok(got) => got.for_each(|datagram| self.take_in(&datagram, number)),
                // An ICMP message, of one of our probes.
                Err(error) => match error.raw_os_error() {
                    Some(
                        number @ (libc::ECONNREFUSED
                        | libc::EHOSTUNREACH
                        | libc::ENETUNREACH
                        | libc::EACCES),
                    ) => {
                        self.errors.add(Errno::from_raw(number), 1);
                        break;
                    }
                    _ => return Err(error),
                },
            }
        }
        self.batch = batch;
        Ok(())
    }

    fn take_in(&mut self, datagram: &Datagram, last: u64) {
        let Ok(header) = Header::read(datagram.payload) else { return };
        if header.transmission != self.plan.transmission || header.pktgen {
            return;
        }
        let number = header.place(last);
        let sent_ns = usize::try_from(number).ok().and_then(|at| self.sent_ns.get(at).copied());
        let Some(sent_ns) = sent_ns else { return };
        self.returned += u64::from(number == last);
        let Some(answer) = clock_probe::read(datagram.payload) else { return };
        let returned_ns = datagram.stamp_ns.unwrap_or_else(realtime_ns);
        self.answered += 1;
        self.not_by_kernel += u64::from(datagram.stamp_ns.is_none() || !answer.by_kernel);
        self.bounds.add(sent_ns, &answer, returned_ns);
        let there = answer.sent_ns.saturating_sub(answer.received_ns);
        let took = returned_ns.saturating_sub(sent_ns).saturating_sub(there);
        self.shortest_ns = Some(self.shortest_ns.map_or(took, |known| known.min(took)));
        self.far = Some(answer.kept);
    }

    fn report(self, stepping: &Stepping) -> ClockReport {
        let stepped_ns = stepping.so_far_ns();
        let bound = |bound: Option<Bound>| {
            bound.map(|one| BoundReport { at_ns: one.at_ns, ahead_ns: one.ahead_ns })
        };
        let middle = self.bounds.middle();
        let unknown = match middle {
            None if self.returned > 0 => Some("the echo is one of before, and tells no times"),
            None => Some("no probe came back"),
            Some(_) if stepped_ns != 0 => Some("this machine's clock was set meanwhile"),
            Some(Err(Contradiction)) => Some("a clock was set meanwhile"),
            Some(Ok(_)) => None,
        };
        let at_ns = self.bounds.at_ns();
        let ahead = middle.and_then(Result::ok).filter(|_| unknown.is_none());
        ClockReport {
            schema: SCHEMA,
            role: "clock",
            to: self.plan.to.to_string(),
            sent: self.sent_ns.len() as u64 - self.unsent,
            unsent: self.unsent,
            answered: self.answered,
            errors: self.errors.named(),
            not_by_kernel: self.not_by_kernel,
            round_trip_ns: self.shortest_ns,
            ahead: ahead.map(|(ahead_ns, off_ns)| AheadReport {
                ahead_ns,
                off_ns,
                at_ns,
                there_ns: at_ns.saturating_add_signed(ahead_ns),
            }),
            unknown,
            most: bound(self.bounds.most),
            least: bound(self.bounds.least),
            near: KeptReport::of(Kept::now()),
            far: self.far.map(KeptReport::of),
            stepped_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(received_ns: u64, sent_ns: u64) -> Answer {
        Answer { received_ns, sent_ns, by_kernel: true, kept: Kept::default() }
    }

    #[test]
    fn bounds_are_those_of_the_fastest_ways() {
        let mut bounds = Bounds::default();
        assert!(bounds.middle().is_none());
        // Ahead by 500: 40 there and 10 back, and then 20 there and 70 back.
        bounds.add(1_000, &answer(1_540, 1_550), 1_060);
        bounds.add(2_000, &answer(2_520, 2_530), 2_100);
        assert_eq!(bounds.most, Some(Bound { at_ns: 2_000, ahead_ns: 520 }));
        assert_eq!(bounds.least, Some(Bound { at_ns: 1_060, ahead_ns: 490 }));
        assert_eq!((bounds.middle(), bounds.at_ns()), (Some(Ok((505, 16))), 1_530));
    }

    #[test]
    fn a_clock_that_was_set_contradicts_itself() {
        let mut bounds = Bounds::default();
        bounds.add(1_000, &answer(1_500, 1_510), 1_020);
        bounds.add(2_000, &answer(2_500 - 400, 2_510 - 400), 2_020);
        assert_eq!(bounds.middle(), Some(Err(Contradiction)));
    }

    #[test]
    fn clocks_that_nobody_set_are_bounded() {
        let mut bounds = Bounds::default();
        bounds.add(u64::MAX, &answer(0, 0), u64::MAX);
        assert_eq!(bounds.middle(), Some(Ok((i64::MIN, 1))));
    }

    proptest! {
        /// Also while one of them is turned: the truth at either bound's time is within what is told.
        #[test]
        fn a_drift_is_in_what_the_middle_may_be_off(
            drift_ppb in -600_000_i64..600_000,
            ways in prop::collection::vec((0_u64..1 << 20, 0_u64..1 << 10, 0_u64..1 << 20), 2..50),
            gap in 0_u64..1 << 27
        ) {
            let mut bounds = Bounds::default();
            let begun = 1_u64 << 61;
            let ahead = |at: u64| {
                let since = i128::from(at) - i128::from(begun);
                i64::try_from(since * i128::from(drift_ppb) / 1_000_000_000).unwrap()
            };
            let there = |at: u64| at.checked_add_signed(ahead(at)).unwrap();
            let mut now = begun;
            for (forth, stays, back) in ways {
                let sent = now;
                let times = answer(there(sent + forth), there(sent + forth + stays));
                now += forth + stays + back;
                bounds.add(sent, &times, now);
                now += gap;
            }
            let (middle, off) = bounds.middle().unwrap().unwrap();
            for at in [bounds.most.unwrap().at_ns, bounds.least.unwrap().at_ns, bounds.at_ns()] {
                prop_assert!(middle.abs_diff(ahead(at)) <= off + 2, "{middle} ± {off} at {at}");
            }
        }

        /// Whatever ways take, and whichever clock is ahead by how much.
        #[test]
        fn the_truth_lies_within_the_bounds(
            ahead in -1_i64 << 60..1 << 60,
            ways in prop::collection::vec((0_u64..1 << 30, 0_u64..1 << 20, 0_u64..1 << 30), 1..50)
        ) {
            let mut bounds = Bounds::default();
            let mut now_ns = 1_u64 << 61;
            let there = |here: u64| here.checked_add_signed(ahead).unwrap();
            for (forth, stays, back) in ways {
                let sent_ns = now_ns;
                let times = answer(there(sent_ns + forth), there(sent_ns + forth + stays));
                now_ns += forth + stays + back;
                bounds.add(sent_ns, &times, now_ns);
            }
            let (middle, off) = bounds.middle().unwrap().unwrap();
            prop_assert!(middle.abs_diff(ahead) <= off, "{middle} ± {off}");
            prop_assert!(bounds.least.unwrap().ahead_ns <= ahead);
            prop_assert!(bounds.most.unwrap().ahead_ns >= ahead);
        }
    }
}
