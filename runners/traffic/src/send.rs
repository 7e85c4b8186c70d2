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
use crate::generator::{self, Generator, Random, Unit};
use crate::header::{Clock, Header, LEN};
use crate::pace::{Gaps, Lateness, Schedule, wait_until};
use crate::report::{LateReport, SCHEMA, SendReport, SizeReport, Stopped};
use crate::socket::{open_sender, segment, send_many, send_segmented};

/// The largest size that a UDP header can tell. What the path does not carry the kernel refuses.
pub const MOST_BYTES: u16 = u16::MAX;

/// What to send.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Destination.
    pub to: SocketAddr,
    /// Packets; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// UDP payload of each packet, as [`generator::parse`] takes it; bytes that are fewer than the
    /// header's, or more than a payload may have, become these.
    pub sizes: String,
    /// Added to each of `sizes`: less than 0 where these are of frames.
    pub more_bytes: i32,
    /// Packets per second; 0 is as fast as possible.
    pub rate: u32,
    /// Instead of a rate, times between packets, as [`generator::parse`] takes them.
    pub intervals: Option<String>,
    /// What random sizes and intervals begin with.
    pub seed: u64,
    /// At most so many packets are given to the kernel at once, if so many are due.
    pub batch: usize,
    /// Have the kernel cut each batch of a flow into packets, all of one size (`UDP_SEGMENT`).
    pub segment: bool,
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
/// A socket that cannot be opened, or a generator that is none. Refused packets are no error but
/// part of the report.
pub fn run(plan: &Plan, stop: &AtomicBool) -> io::Result<SendReport> {
    let sockets = (0..plan.flows)
        .map(|flow| {
            let port = if plan.source_port == 0 { 0 } else { plan.source_port + flow };
            open_sender(plan.to, port)
        })
        .collect::<io::Result<Vec<_>>>()?;
    if plan.segment {
        let bytes: i32 = plan.sizes.parse().map_err(io::Error::other)?;
        let bytes = u16::try_from(bytes + plan.more_bytes).map_err(io::Error::other)?;
        for socket in &sockets {
            segment(socket, bytes)?;
        }
    }
    Sender::new(plan, sockets, stop)?.run()
}

/// A packet that waits for its time.
struct Next {
    number: u64,
    due_ns: u64,
    bytes: u16,
}

/// Sizes of packets, and what came of them.
struct Sizes {
    generator: Box<dyn Generator>,
    random: Random,
    more: f64,
    clipped: u64,
}

impl Sizes {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between both bounds"
    )]
    fn draw(&mut self) -> u16 {
        let drawn = (self.generator.draw(&mut self.random) + self.more).round();
        let kept = drawn.clamp(LEN as f64, MOST_BYTES.into());
        self.clipped += u64::from((kept - drawn).abs() > 0.0);
        kept as u16
    }
}

struct Sender<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    sockets: Vec<UdpSocket>,
    sizes: Sizes,
    /// Of each flow, the packets of this batch.
    waiting: Vec<Vec<Vec<u8>>>,
    /// Payloads that are not used now.
    spare: Vec<Vec<u8>>,
    deadline_ns: u64,
    /// Failed calls by errno.
    errors: BTreeMap<i32, u64>,
    late: Lateness,
    sent: u64,
    unsent: u64,
    /// Of the first and of the last packet: when it was sent, and when it was due.
    first: Option<(u64, u64)>,
    last: (u64, u64),
    bytes: SizeReport,
}

impl<'a> Sender<'a> {
    fn new(plan: &'a Plan, sockets: Vec<UdpSocket>, stop: &'a AtomicBool) -> io::Result<Self> {
        let generator = generator::parse(&plan.sizes, Unit::Bytes).map_err(io::Error::other)?;
        Ok(Self {
            plan,
            stop,
            waiting: sockets.iter().map(|_| Vec::new()).collect(),
            sockets,
            sizes: Sizes {
                generator,
                random: Random::seed_from_u64(plan.seed),
                more: plan.more_bytes.into(),
                clipped: 0,
            },
            spare: Vec::new(),
            deadline_ns: 0,
            errors: BTreeMap::new(),
            late: Lateness::default(),
            sent: 0,
            unsent: 0,
            first: None,
            last: (0, 0),
            bytes: SizeReport::default(),
        })
    }

    fn run(mut self) -> io::Result<SendReport> {
        let gaps = match &self.plan.intervals {
            Some(text) => {
                Gaps::Drawn(generator::parse(text, Unit::Time).map_err(io::Error::other)?)
            }
            None if self.plan.rate == 0 => Gaps::None,
            None => Gaps::Rate(self.plan.rate),
        };
        let start_ns = monotonic_ns();
        // Sizes and intervals are drawn apart: to change the one leaves the other as it is.
        let random = Random::seed_from_u64(self.plan.seed ^ (1 << 63));
        let mut schedule = Schedule::new(start_ns, gaps, random);
        self.deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let stopped_by = self.send_all(&mut schedule);
        Ok(self.report(stopped_by))
    }

    fn send_all(&mut self, schedule: &mut Schedule) -> Stopped {
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
            self.take(&first, now_ns);
            next = self.next(&mut numbers, schedule);
            for _ in 1..self.plan.batch {
                let Some(also) = next.take_if(|next| next.due_ns <= now_ns) else { break };
                self.take(&also, now_ns);
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
        Some(Next { number, due_ns: schedule.next_ns(), bytes: self.sizes.draw() })
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
    fn take(&mut self, packet: &Next, now_ns: u64) {
        if self.paced() {
            let late_ns = now_ns.saturating_sub(packet.due_ns);
            self.late.add(late_ns, nanoseconds(self.plan.late));
        }
        self.last = (now_ns, packet.due_ns);
        self.first.get_or_insert(self.last);
        self.bytes.add(packet.bytes.into());
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.resize(packet.bytes.into(), 0);
        let header = Header {
            transmission: self.plan.transmission,
            sequence: packet.number,
            pktgen: false,
            clock: Clock::Realtime,
            stamp: realtime_ns(),
        };
        header.write(payload.first_chunk_mut().expect("payload holds the header"));
        let flow = usize::try_from(packet.number % u64::from(self.plan.flows)).expect("a u16");
        self.waiting[flow].push(payload);
    }

    /// Whether packets have times of their own.
    fn paced(&self) -> bool {
        self.plan.rate != 0 || self.plan.intervals.is_some()
    }

    /// Send all that wait.
    fn flush(&mut self) {
        for flow in 0..self.waiting.len() {
            let mut packets = std::mem::take(&mut self.waiting[flow]);
            self.send(flow, &packets);
            self.spare.append(&mut packets);
            self.waiting[flow] = packets;
        }
    }

    fn send(&mut self, flow: usize, packets: &[Vec<u8>]) {
        let mut at = 0;
        let mut refused_before = false;
        while at < packets.len() {
            let give = if self.plan.segment { send_segmented } else { send_many };
            let error = match give(&self.sockets[flow], &packets[at..]) {
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
            // This error belongs to an earlier packet (ICMP), so this one was not yet tried.
            let stale = error == Errno::ECONNREFUSED && !refused_before;
            refused_before |= stale;
            if !(blocked || stale) || self.must_stop(monotonic_ns()).is_some() {
                self.unsent += 1;
                at += 1;
                refused_before = false;
            }
        }
    }

    fn report(self, stopped_by: Stopped) -> SendReport {
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
            sizes: plan.sizes.clone(),
            clipped: self.sizes.clipped,
            payload_bytes: self.bytes,
            frame_overhead: frame_overhead(plan.to),
            flows: plan.flows,
            transmission: plan.transmission,
            seed: plan.seed,
            batch: plan.batch,
            segment: plan.segment,
            rate_asked: plan.rate,
            intervals: plan.intervals.clone(),
            rate_planned: self.paced().then(|| rate(attempted, seconds(first.1, last.1))).flatten(),
            rate_reached: rate(self.sent, took),
            seconds: took,
            late: self.paced().then(|| LateReport {
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
