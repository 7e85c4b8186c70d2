// SPDX-License-Identifier: GPL-2.0-or-later
//! The sender: numbered, stamped packets on an absolute schedule.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;

use crate::clock::{NS_PER_SEC, monotonic_ns, realtime_ns};
use crate::header::{Clock, Header};
use crate::pace::{Lateness, Schedule, wait_until};
use crate::report::{LateReport, SCHEMA, SendReport, Stopped};
use crate::socket::open_sender;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Destination.
    pub to: SocketAddr,
    /// Packets; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// UDP payload of each packet, at least [`crate::header::LEN`] bytes.
    pub payload_bytes: u16,
    /// Packets per second; 0 is as fast as possible.
    pub rate: u32,
    /// Source ports, used in turn; at least 1.
    pub flows: u16,
    /// First source port; 0 lets the kernel choose each.
    pub source_port: u16,
    /// Longest time to send.
    pub limit: Duration,
    /// Watch the clock for the last part of each wait instead of sleeping through it.
    pub spin: Duration,
    /// Packets later than this are counted.
    pub late: Duration,
    /// Number of this transmission in each header.
    pub transmission: u16,
}

/// Bytes around a UDP payload on Ethernet: MAC header and checksum, IP header, UDP header.
#[must_use]
pub fn frame_overhead(to: SocketAddr) -> u16 {
    14 + 4 + 8 + if to.is_ipv4() { 20 } else { 40 }
}

/// Send as planned until done, out of time, or told to stop.
///
/// # Errors
/// A socket that cannot be opened. Refused packets are no error but part of the report.
pub fn run(plan: &Plan, stop: &AtomicBool) -> io::Result<SendReport> {
    let sockets = (0..plan.flows)
        .map(|flow| {
            let port = if plan.source_port == 0 { 0 } else { plan.source_port + flow };
            open_sender(plan.to, port)
        })
        .collect::<io::Result<Vec<_>>>()?;
    Sender::new(plan, sockets, stop).run()
}

struct Sender<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    sockets: Vec<UdpSocket>,
    payload: Vec<u8>,
    deadline_ns: u64,
    /// Failed calls by errno.
    errors: BTreeMap<i32, u64>,
    late: Lateness,
    sent: u64,
    unsent: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl<'a> Sender<'a> {
    fn new(plan: &'a Plan, sockets: Vec<UdpSocket>, stop: &'a AtomicBool) -> Self {
        Self {
            plan,
            stop,
            sockets,
            payload: vec![0; usize::from(plan.payload_bytes)],
            deadline_ns: 0,
            errors: BTreeMap::new(),
            late: Lateness::default(),
            sent: 0,
            unsent: 0,
            first_ns: None,
            last_ns: 0,
        }
    }

    fn run(mut self) -> io::Result<SendReport> {
        let start_ns = monotonic_ns();
        let schedule = Schedule::new(start_ns, self.plan.rate);
        self.deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let stopped_by = self.send_all(&schedule)?;
        Ok(self.report(stopped_by))
    }

    fn send_all(&mut self, schedule: &Schedule) -> io::Result<Stopped> {
        let spin_ns = nanoseconds(self.plan.spin);
        let late_ns = nanoseconds(self.plan.late);
        for number in 0..self.plan.count.unwrap_or(u64::MAX) {
            let due_ns = schedule.due_ns(number);
            if due_ns < self.deadline_ns {
                wait_until(due_ns, spin_ns, self.stop);
            }
            let now_ns = monotonic_ns();
            if let Some(reason) = self.must_stop(now_ns.max(due_ns)) {
                return Ok(reason);
            }
            if self.plan.rate != 0 {
                self.late.add(now_ns.saturating_sub(due_ns), late_ns);
            }
            self.first_ns.get_or_insert(now_ns);
            self.last_ns = now_ns;
            self.send_one(number)?;
        }
        Ok(Stopped::Count)
    }

    fn must_stop(&self, now_ns: u64) -> Option<Stopped> {
        if self.stop.load(Ordering::Relaxed) {
            Some(Stopped::Signal)
        } else if now_ns >= self.deadline_ns {
            Some(Stopped::Seconds)
        } else {
            None
        }
    }

    fn send_one(&mut self, number: u64) -> io::Result<()> {
        let flow = usize::try_from(number % u64::from(self.plan.flows)).expect("below a u16");
        let header = Header {
            transmission: self.plan.transmission,
            sequence: number,
            pktgen: false,
            clock: Clock::Realtime,
            stamp: realtime_ns(),
        };
        header.write(self.payload.first_chunk_mut().expect("payload holds the header"));
        let mut refused_before = false;
        loop {
            let error = match self.sockets[flow].send(&self.payload) {
                Ok(_) => {
                    self.sent += 1;
                    return Ok(());
                }
                Err(error) => Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            };
            let blocked = matches!(error, Errno::EAGAIN | Errno::EINTR);
            if !blocked {
                *self.errors.entry(error as i32).or_default() += 1;
            }
            // This error belongs to an earlier packet (ICMP), so this one was not yet tried.
            let stale = error == Errno::ECONNREFUSED && !refused_before;
            refused_before |= stale;
            if !(blocked || stale) || self.must_stop(monotonic_ns()).is_some() {
                self.unsent += 1;
                return Ok(());
            }
        }
    }

    fn report(self, stopped_by: Stopped) -> SendReport {
        let plan = self.plan;
        let attempted = self.sent + self.unsent;
        let seconds =
            (self.last_ns - self.first_ns.unwrap_or(self.last_ns)) as f64 / NS_PER_SEC as f64;
        SendReport {
            schema: SCHEMA,
            role: "send",
            to: plan.to.to_string(),
            asked: plan.count,
            attempted,
            sent: self.sent,
            unsent: self.unsent,
            errors: self.errors.iter().map(|(&errno, &n)| (errno_name(errno), n)).collect(),
            payload_bytes: u32::from(plan.payload_bytes),
            frame_bytes: u32::from(plan.payload_bytes) + u32::from(frame_overhead(plan.to)),
            flows: plan.flows,
            transmission: plan.transmission,
            rate_asked: plan.rate,
            rate_reached: (attempted > 1 && seconds > 0.0)
                .then(|| self.sent.saturating_sub(1) as f64 / seconds),
            seconds,
            late: (plan.rate != 0).then(|| LateReport {
                threshold_ns: nanoseconds(plan.late),
                count: self.late.count,
                mean_ns: self.late.sum_ns as f64 / attempted.max(1) as f64,
                max_ns: self.late.max_ns,
            }),
            stopped_by,
        }
    }
}

fn errno_name(errno: i32) -> String {
    format!("{:?}", Errno::from_raw(errno))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
