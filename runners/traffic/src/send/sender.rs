// SPDX-License-Identifier: GPL-2.0-or-later
//! The loop: each packet at its time, or with those that are due already.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;

use super::outlet::{Account, Outlet, Packet, State};
use super::plan::Plan;
use crate::clock::{monotonic_ns, nanoseconds};
use crate::departures::Departures;
use crate::generator::Random;
use crate::pace::{Gaps, Schedule, wait_until};
use crate::report::{SCHEMA, SendReport, SentReport, SizeReport, StepReport, Stopped};

/// A packet that waits for its time.
struct Next {
    packet: Packet,
    clipped: bool,
}

pub(super) struct Sender<'a> {
    plan: Plan,
    stop: &'a AtomicBool,
    outlet: Box<dyn Outlet>,
    random: Random,
    deadline_ns: u64,
    account: Account,
    departures: Departures,
    clipped: u64,
    bytes: SizeReport,
}

impl<'a> Sender<'a> {
    pub(super) fn new(plan: Plan, outlet: Box<dyn Outlet>, stop: &'a AtomicBool) -> Self {
        Self {
            random: Random::seed_from_u64(plan.seed),
            departures: Departures::new(plan.late),
            plan,
            stop,
            outlet,
            deadline_ns: 0,
            account: Account::default(),
            clipped: 0,
            bytes: SizeReport::default(),
        }
    }

    pub(super) fn run(mut self) -> SendReport {
        let intervals = self.plan.intervals.as_ref().map(|named| named.text.clone());
        let gaps = match self.plan.intervals.take() {
            Some(named) => Gaps::Drawn(named.generator),
            None if self.plan.rate.is_zero() => Gaps::None,
            None => Gaps::Rate(self.plan.rate),
        };
        let paced = !matches!(gaps, Gaps::None);
        let start_ns = monotonic_ns().saturating_add(self.lead_ns());
        // Sizes and intervals are drawn apart: to change the one leaves the other as it is.
        let random = Random::seed_from_u64(self.plan.seed ^ (1 << 63));
        let mut schedule = Schedule::new(start_ns, gaps, random).then(self.plan.step);
        self.deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let stopped_by = self.send_all(&mut schedule);
        self.report(stopped_by, paced, intervals, schedule.stepped())
    }

    fn send_all(&mut self, schedule: &mut Schedule) -> Stopped {
        let (spin_ns, lead_ns) = (nanoseconds(self.plan.spin), self.lead_ns());
        let count = self.plan.count.unwrap_or(u64::MAX);
        let mut numbers = 0..count;
        let mut next = self.next(&mut numbers, schedule);
        while let Some(first) = next {
            if first.packet.due_ns < self.deadline_ns {
                wait_until(first.packet.due_ns.saturating_sub(lead_ns), spin_ns, self.stop);
            }
            let now_ns = monotonic_ns();
            if let Some(reason) =
                must_stop(self.stop, self.deadline_ns, now_ns.max(first.packet.due_ns))
            {
                return reason;
            }
            self.take(&first, now_ns);
            next = self.next(&mut numbers, schedule);
            for _ in 1..self.plan.batch {
                let Some(also) = next.take_if(|next| next.packet.due_ns <= now_ns + lead_ns) else {
                    break;
                };
                self.take(&also, now_ns);
                next = self.next(&mut numbers, schedule);
            }
            if self.flush() == State::Gone {
                return Stopped::Device;
            }
        }
        Stopped::Count
    }

    fn next(
        &mut self,
        numbers: &mut std::ops::Range<u64>,
        schedule: &mut Schedule,
    ) -> Option<Next> {
        let number = numbers.next()?;
        let drawn = self.plan.sizes.generator.draw(&mut self.random);
        let (payload, clipped) = self.plan.payload(drawn);
        Some(Next { packet: Packet { number, payload, due_ns: schedule.next_ns() }, clipped })
    }

    /// How long before its time a packet is given to the kernel.
    fn lead_ns(&self) -> u64 {
        self.plan.txtime.map_or(0, |txtime| nanoseconds(txtime.lead))
    }

    /// Have a packet be sent with this batch.
    fn take(&mut self, next: &Next, now_ns: u64) {
        self.departures.leaves(now_ns, next.packet.due_ns);
        self.bytes.add(next.packet.payload.into());
        self.clipped += u64::from(next.clipped);
        self.outlet.add(next.packet);
    }

    /// Send all that wait, in their order.
    fn flush(&mut self) -> State {
        let (stop, deadline_ns) = (self.stop, self.deadline_ns);
        let over = || must_stop(stop, deadline_ns, monotonic_ns()).is_some();
        let state = self.outlet.send(&mut self.account, &over);
        self.departures.left(monotonic_ns());
        state
    }

    fn report(
        mut self,
        stopped_by: Stopped,
        paced: bool,
        intervals: Option<String>,
        stepped: Option<u64>,
    ) -> SendReport {
        let txtime = self.outlet.times(&mut self.account);
        let device = self.outlet.device(&self.account);
        let (plan, account) = (self.plan, self.account);
        let attempted = account.sent + account.unsent;
        let mut pace = self.departures.pace(attempted, account.sent);
        pace.rate_planned = pace.rate_planned.filter(|_| paced);
        // The schedule is one packet ahead.
        let stepped = stepped.filter(|&sequence| sequence < attempted);
        SendReport {
            schema: SCHEMA,
            role: "send",
            packets: SentReport {
                to: plan.to.to_string(),
                asked: plan.count,
                attempted,
                sent: account.sent,
                unsent: account.unsent,
                errors: account.errors(),
                transmission: plan.transmission,
                intervals,
                pace,
                stopped_by,
            },
            clipped: self.clipped,
            payload_bytes: self.bytes,
            frame_overhead: plan.overhead(),
            sizes: plan.sizes.text,
            flows: plan.flows,
            seed: plan.seed,
            batch: plan.batch,
            segment: plan.segment,
            rate_asked: plan.rate,
            step: plan.step.zip(stepped).map(|(step, sequence)| StepReport {
                at_ns: nanoseconds(step.after),
                sequence,
                rate: step.rate,
            }),
            late: paced.then(|| self.departures.late(attempted)),
            txtime,
            device,
        }
    }
}

fn must_stop(stop: &AtomicBool, deadline_ns: u64, now_ns: u64) -> Option<Stopped> {
    if stop.load(Ordering::Relaxed) {
        Some(Stopped::Signal)
    } else if now_ns >= deadline_ns {
        Some(Stopped::Seconds)
    } else {
        None
    }
}
