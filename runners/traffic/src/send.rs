// SPDX-License-Identifier: GPL-2.0-or-later
//! The sender: numbered, stamped packets on an absolute schedule.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use rand::SeedableRng;

use crate::clock::{NS_PER_SEC, monotonic_ns, realtime_ns};
use crate::generator::{Named, Random};
use crate::header::{Clock, Header, LEN};
use crate::pace::{Gaps, Lateness, Schedule, wait_until};
use crate::report::{LateReport, SCHEMA, SendReport, SizeReport, Stopped};
use crate::socket::{Many, open_sender, segment, send_segmented};

/// What to send.
#[derive(Debug)]
pub struct Plan {
    /// Destination.
    pub to: SocketAddr,
    /// Packets; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// UDP payload of each packet; bytes that are fewer than the header's, or more than
    /// [`most_bytes`], become these.
    pub sizes: Named,
    /// Added to each of `sizes`: less than 0 where these are of frames.
    pub more_bytes: i32,
    /// Packets per second; 0 is as fast as possible.
    pub rate: u32,
    /// Instead of a rate, times between packets.
    pub intervals: Option<Named>,
    /// What random sizes and intervals begin with.
    pub seed: u64,
    /// At most so many packets are given to the kernel at once, if so many are due.
    pub batch: usize,
    /// Have the kernel cut each batch of a flow into packets, all of one size (`UDP_SEGMENT`).
    pub segment: bool,
    /// Source ports, used in turn, each for a whole batch; at least 1.
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

/// The largest UDP payload that one packet of IP carries.
#[must_use]
pub fn most_bytes(to: SocketAddr) -> u16 {
    if to.is_ipv4() { u16::MAX - 8 - 20 } else { u16::MAX - 8 }
}

/// Send as planned until done, out of time, or told to stop.
///
/// # Errors
/// A socket that cannot be opened. Refused packets are no error but part of the report.
///
/// # Panics
/// If packets are to be segmented, and have not one size.
pub fn run(plan: Plan, stop: &AtomicBool) -> io::Result<SendReport> {
    let sockets = (0..plan.flows)
        .map(|flow| {
            let port = if plan.source_port == 0 { 0 } else { plan.source_port + flow };
            open_sender(plan.to, port)
        })
        .collect::<io::Result<Vec<_>>>()?;
    if plan.segment {
        let size = plan.sizes.generator.constant().expect("one size");
        let (bytes, _) = clip(size + f64::from(plan.more_bytes), plan.to);
        for socket in &sockets {
            segment(socket, bytes)?;
        }
    }
    Ok(Sender::new(plan, sockets, stop).run())
}

/// The size that a packet gets, and whether it was changed.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it lies between both bounds"
)]
fn clip(bytes: f64, to: SocketAddr) -> (u16, bool) {
    let whole = bytes.round();
    let kept = whole.clamp(LEN as f64, most_bytes(to).into());
    (kept as u16, (kept - whole).abs() > 0.0)
}

/// A packet that waits for its time.
struct Next {
    number: u64,
    due_ns: u64,
    bytes: u16,
    clipped: bool,
}

struct Sender<'a> {
    plan: Plan,
    stop: &'a AtomicBool,
    sockets: Vec<UdpSocket>,
    random: Random,
    /// Packets of this batch in their order, and the flow of each.
    waiting: Vec<Vec<u8>>,
    flows: Vec<usize>,
    /// Payloads that are not used now.
    spare: Vec<Vec<u8>>,
    many: Many,
    deadline_ns: u64,
    /// Failed calls by errno.
    errors: BTreeMap<i32, u64>,
    late: Lateness,
    sent: u64,
    unsent: u64,
    clipped: u64,
    /// When the first packet was sent, and when it was due.
    first: Option<(u64, u64)>,
    /// When the last one was with the kernel, and when it was due.
    last: (u64, u64),
    bytes: SizeReport,
}

impl<'a> Sender<'a> {
    fn new(plan: Plan, sockets: Vec<UdpSocket>, stop: &'a AtomicBool) -> Self {
        Self {
            random: Random::seed_from_u64(plan.seed),
            plan,
            stop,
            sockets,
            waiting: Vec::new(),
            flows: Vec::new(),
            spare: Vec::new(),
            many: Many::default(),
            deadline_ns: 0,
            errors: BTreeMap::new(),
            late: Lateness::default(),
            sent: 0,
            unsent: 0,
            clipped: 0,
            first: None,
            last: (0, 0),
            bytes: SizeReport::default(),
        }
    }

    fn run(mut self) -> SendReport {
        let intervals = self.plan.intervals.as_ref().map(|named| named.text.clone());
        let gaps = match self.plan.intervals.take() {
            Some(named) => Gaps::Drawn(named.generator),
            None if self.plan.rate == 0 => Gaps::None,
            None => Gaps::Rate(self.plan.rate),
        };
        let paced = !matches!(gaps, Gaps::None);
        let start_ns = monotonic_ns();
        // Sizes and intervals are drawn apart: to change the one leaves the other as it is.
        let random = Random::seed_from_u64(self.plan.seed ^ (1 << 63));
        let mut schedule = Schedule::new(start_ns, gaps, random);
        self.deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let stopped_by = self.send_all(&mut schedule, paced);
        self.report(stopped_by, paced, intervals)
    }

    fn send_all(&mut self, schedule: &mut Schedule, paced: bool) -> Stopped {
        let spin_ns = nanoseconds(self.plan.spin);
        let count = self.plan.count.unwrap_or(u64::MAX);
        let mut numbers = 0..count;
        let mut next = self.next(&mut numbers, schedule);
        while let Some(first) = next {
            if first.due_ns < self.deadline_ns {
                wait_until(first.due_ns, spin_ns, self.stop);
            }
            let now_ns = monotonic_ns();
            if let Some(reason) = self.must_stop(now_ns.max(first.due_ns)) {
                return reason;
            }
            self.take(&first, now_ns, paced);
            next = self.next(&mut numbers, schedule);
            for _ in 1..self.plan.batch {
                let Some(also) = next.take_if(|next| next.due_ns <= now_ns) else { break };
                self.take(&also, now_ns, paced);
                next = self.next(&mut numbers, schedule);
            }
            self.flush();
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
        let (bytes, clipped) = clip(drawn + f64::from(self.plan.more_bytes), self.plan.to);
        Some(Next { number, due_ns: schedule.next_ns(), bytes, clipped })
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

    /// Have a packet be sent with this batch.
    fn take(&mut self, packet: &Next, now_ns: u64, paced: bool) {
        if paced {
            let late_ns = now_ns.saturating_sub(packet.due_ns);
            self.late.add(late_ns, nanoseconds(self.plan.late));
        }
        self.first.get_or_insert((now_ns, packet.due_ns));
        self.last.1 = packet.due_ns;
        self.bytes.add(packet.bytes.into());
        self.clipped += u64::from(packet.clipped);
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.resize(packet.bytes.into(), 0);
        let header = Header {
            transmission: self.plan.transmission,
            sequence: packet.number,
            pktgen: false,
            clock: Clock::Realtime,
            stamp: 0,
        };
        header.write(payload.first_chunk_mut().expect("payload holds the header"));
        self.waiting.push(payload);
        // A batch is of one flow, so that packets leave in their order.
        let turn = packet.number / self.plan.batch as u64 % u64::from(self.plan.flows);
        self.flows.push(usize::try_from(turn).expect("below a u16"));
    }

    /// Send all that wait, in their order.
    fn flush(&mut self) {
        let mut packets = std::mem::take(&mut self.waiting);
        let mut from = 0;
        while from < packets.len() {
            let flow = self.flows[from];
            let end = (from..packets.len()).find(|&at| self.flows[at] != flow);
            let end = end.unwrap_or(packets.len());
            self.send(flow, &mut packets[from..end]);
            from = end;
        }
        self.last.0 = monotonic_ns();
        self.flows.clear();
        self.spare.append(&mut packets);
        self.waiting = packets;
    }

    fn send(&mut self, flow: usize, packets: &mut [Vec<u8>]) {
        for packet in &mut *packets {
            Header::stamp(packet.first_chunk_mut().expect("a header"), realtime_ns());
        }
        let mut at = 0;
        let mut refused_before = false;
        while at < packets.len() {
            let socket = &self.sockets[flow];
            let gave = if self.plan.segment {
                send_segmented(socket, &packets[at..])
            } else {
                self.many.send(socket, &packets[at..])
            };
            let error = match gave {
                Ok(sent) => {
                    self.sent += sent as u64;
                    at += sent;
                    refused_before = false;
                    continue;
                }
                Err(error) => Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            };
            let blocked = matches!(error, Errno::EAGAIN | Errno::EINTR);
            if !blocked {
                *self.errors.entry(error as i32).or_default() += 1;
            }
            if self.must_stop(monotonic_ns()).is_some() {
                self.unsent += (packets.len() - at) as u64;
                return;
            }
            // This error belongs to an earlier packet (ICMP), so this one was not yet tried.
            let stale = error == Errno::ECONNREFUSED && !refused_before;
            refused_before |= stale;
            if !(blocked || stale) {
                self.unsent += 1;
                at += 1;
                refused_before = false;
            }
        }
    }

    fn report(self, stopped_by: Stopped, paced: bool, intervals: Option<String>) -> SendReport {
        let plan = self.plan;
        let attempted = self.sent + self.unsent;
        let (first, last) = (self.first.unwrap_or(self.last), self.last);
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / NS_PER_SEC as f64;
        let rate = |packets: u64, seconds: f64| {
            (attempted > 1 && seconds > 0.0).then(|| packets.saturating_sub(1) as f64 / seconds)
        };
        let took = seconds(first.0, last.0);
        SendReport {
            schema: SCHEMA,
            role: "send",
            to: plan.to.to_string(),
            asked: plan.count,
            attempted,
            sent: self.sent,
            unsent: self.unsent,
            errors: self.errors.iter().map(|(&errno, &n)| (errno_name(errno), n)).collect(),
            sizes: plan.sizes.text,
            clipped: self.clipped,
            payload_bytes: self.bytes,
            frame_overhead: frame_overhead(plan.to),
            flows: plan.flows,
            transmission: plan.transmission,
            seed: plan.seed,
            batch: plan.batch,
            segment: plan.segment,
            rate_asked: plan.rate,
            intervals,
            rate_planned: paced.then(|| rate(attempted, seconds(first.1, last.1))).flatten(),
            rate_reached: rate(self.sent, took),
            seconds: took,
            late: paced.then(|| LateReport {
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
