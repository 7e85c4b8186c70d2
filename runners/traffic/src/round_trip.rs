// SPDX-License-Identifier: GPL-2.0-or-later
//! Round trips: packets sent at a rate, and those that an echo sends back, on one socket.
//!
//! One thread sends, another receives. Both times of a packet are of this machine's clock, so what lies
//! between them is a true delay: the way there, the echo, and the way back.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use rand::SeedableRng;

use crate::arrival;
use crate::batch::{Batch, Datagram};
use crate::clock::{monotonic_ns, nanoseconds, realtime_ns};
use crate::departures::Departures;
use crate::distribution;
use crate::errors::Errors;
use crate::generator::{Named, Random};
use crate::header::{Clock, Header, LEN};
use crate::pace::{Gaps, Rate, Schedule, wait_until};
use crate::record::{self, FileHeader, flags};
use crate::recorder::Recorder;
use crate::report::{RecordReport, RoundTripReport, SCHEMA, SentReport, StampsReport, Stopped};
use crate::sequence::{Tracker, Verdict};
use crate::socket::{TICK, drops, open_sender};
use crate::timing::{Clocks, Timing};

/// What to send, and what to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Address and port of the echo.
    pub to: SocketAddr,
    /// Packets; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// UDP payload of each packet, at least the header's length.
    pub bytes: u16,
    /// Packets per second, where there are no intervals.
    pub rate: u32,
    /// What random intervals begin with.
    pub seed: u64,
    /// Longest time to send.
    pub limit: Duration,
    /// Wait so long for packets after the last was sent.
    pub wait: Duration,
    /// Watch the clock for the last part of each wait instead of sleeping through it.
    pub spin: Duration,
    /// Packets that leave later than this are counted.
    pub late: Duration,
    /// Receive buffer, bytes.
    pub rcvbuf: Option<u32>,
    /// Number of this transmission in each header.
    pub transmission: u16,
}

/// What the sending thread tells the other one.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    done: AtomicBool,
}

/// Send and receive as planned until done, out of time, or told to stop; `intervals` are instead of
/// the rate.
///
/// # Errors
/// A socket that cannot be opened, or fails. Packets that are refused or lost are part of the report.
pub fn run(
    plan: &Plan,
    intervals: Option<Named>,
    recorder: Option<Recorder>,
    stop: &AtomicBool,
) -> io::Result<RoundTripReport> {
    let socket = open(plan)?;
    let progress = Progress::default();
    let text = intervals.as_ref().map(|named| named.text.clone());
    let mut sender = Sender::new(plan, &socket, stop, &progress);
    let receiver = Receiver::new(plan, &socket, stop, &progress, recorder);
    let (stopped_by, found) = thread::scope(|scope| {
        let receiving = thread::Builder::new()
            .name("receive".to_owned())
            .spawn_scoped(scope, || receiver.run())?;
        let stopped_by = sender.run(intervals);
        let found = receiving.join().unwrap_or_else(|_| Err(io::Error::other("it failed")));
        Ok::<_, io::Error>((stopped_by, found?))
    })?;
    report(plan, &sender, found, text, stopped_by, &socket)
}

fn open(plan: &Plan) -> io::Result<UdpSocket> {
    let socket = open_sender(plan.to, 0)?;
    socket.set_read_timeout(Some(TICK))?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    if let Some(bytes) = plan.rcvbuf {
        let bytes = bytes as usize;
        // Only the privileged form passes net.core.rmem_max.
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
        }
    }
    Ok(socket)
}

struct Sender<'a> {
    plan: &'a Plan,
    socket: &'a UdpSocket,
    stop: &'a AtomicBool,
    progress: &'a Progress,
    payload: Vec<u8>,
    attempted: u64,
    unsent: u64,
    errors: Errors,
    departures: Departures,
}

impl<'a> Sender<'a> {
    fn new(
        plan: &'a Plan,
        socket: &'a UdpSocket,
        stop: &'a AtomicBool,
        progress: &'a Progress,
    ) -> Self {
        Self {
            plan,
            socket,
            stop,
            progress,
            payload: vec![0; usize::from(plan.bytes).max(LEN)],
            attempted: 0,
            unsent: 0,
            errors: Errors::default(),
            departures: Departures::new(plan.late),
        }
    }

    fn run(&mut self, intervals: Option<Named>) -> Stopped {
        let gaps = intervals
            .map_or(Gaps::Rate(Rate::whole(self.plan.rate)), |named| Gaps::Drawn(named.generator));
        let start_ns = monotonic_ns();
        let random = Random::seed_from_u64(self.plan.seed);
        let mut schedule = Schedule::new(start_ns, gaps, random);
        let deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let count = self.plan.count.unwrap_or(u64::MAX);
        let mut stopped_by = Stopped::Count;
        for number in 0..count {
            let due_ns = schedule.next_ns();
            if due_ns < deadline_ns {
                wait_until(due_ns, nanoseconds(self.plan.spin), self.stop);
            }
            let now_ns = monotonic_ns();
            if self.stop.load(Ordering::Relaxed) {
                stopped_by = Stopped::Signal;
                break;
            }
            if now_ns.max(due_ns) >= deadline_ns {
                stopped_by = Stopped::Seconds;
                break;
            }
            self.departures.leaves(now_ns, due_ns);
            self.send(number);
            self.departures.left(monotonic_ns());
        }
        self.progress.done.store(true, Ordering::Release);
        stopped_by
    }

    fn send(&mut self, number: u64) {
        self.attempted += 1;
        let header = Header {
            transmission: self.plan.transmission,
            sequence: number,
            pktgen: false,
            clock: Clock::Realtime,
            stamp: 0,
        };
        let head = self.payload.first_chunk_mut().expect("payload holds the header");
        header.write(head);
        // The first error of a call may be of an earlier packet (ICMP), so that this one was not tried.
        for again in [true, false] {
            let head = self.payload.first_chunk_mut().expect("payload holds the header");
            Header::stamp(head, realtime_ns());
            let error = loop {
                match self.socket.send(&self.payload) {
                    Ok(_) => {
                        self.progress.sent.fetch_add(1, Ordering::Release);
                        return;
                    }
                    Err(error) => match error.raw_os_error().unwrap_or(0) {
                        libc::EAGAIN | libc::EINTR if !self.stop.load(Ordering::Relaxed) => (),
                        number => break Errno::from_raw(number),
                    },
                }
            };
            self.errors.add(error, 1);
            if error != Errno::ECONNREFUSED || !again {
                break;
            }
        }
        self.unsent += 1;
    }
}

/// What came back.
struct Received {
    tracker: Tracker,
    timing: Timing,
    datagrams: u64,
    foreign: u64,
    not_by_kernel: u64,
    errors: Errors,
    record: Option<RecordReport>,
}

struct Receiver<'a> {
    plan: &'a Plan,
    socket: &'a UdpSocket,
    stop: &'a AtomicBool,
    progress: &'a Progress,
    recorder: Option<Recorder>,
    header: FileHeader,
    found: Received,
}

impl<'a> Receiver<'a> {
    fn new(
        plan: &'a Plan,
        socket: &'a UdpSocket,
        stop: &'a AtomicBool,
        progress: &'a Progress,
        recorder: Option<Recorder>,
    ) -> Self {
        Self {
            plan,
            socket,
            stop,
            progress,
            recorder,
            header: FileHeader {
                begun_ns: realtime_ns(),
                transmission: Some(plan.transmission),
                sender_clock: Some(Clock::Realtime),
                one_clock: true,
                round_trip: true,
                ..FileHeader::default()
            },
            found: Received {
                tracker: Tracker::new(plan.count),
                timing: Timing::new(Clocks::One, None),
                datagrams: 0,
                foreign: 0,
                not_by_kernel: 0,
                errors: Errors::default(),
                record: None,
            },
        }
    }

    fn run(mut self) -> io::Result<Received> {
        let result = self.receive();
        // The records are kept whatever happened.
        let header = self.header;
        self.found.record = self.recorder.take().map(|recorder| recorder.finish(|| header));
        result.map(|()| self.found)
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut batch = Batch::default();
        let mut ended_ns = None;
        loop {
            // Before the packets are taken: what was sent before it comes after it.
            let done = self.progress.done.load(Ordering::Acquire);
            match batch.receive(self.socket) {
                Ok(got) => {
                    for datagram in got {
                        self.account(&datagram);
                    }
                }
                // An ICMP message, of one of our packets.
                Err(error) => match error.raw_os_error() {
                    Some(
                        number @ (libc::ECONNREFUSED
                        | libc::EHOSTUNREACH
                        | libc::ENETUNREACH
                        | libc::EMSGSIZE
                        | libc::EPROTO
                        | libc::ENOPROTOOPT
                        | libc::EACCES),
                    ) => self.found.errors.add(Errno::from_raw(number), 1),
                    _ => return Err(error),
                },
            }
            let now_ns = monotonic_ns();
            let header = self.header;
            if let Some(recorder) = &mut self.recorder {
                recorder.tick(now_ns, || header);
            }
            if !done {
                continue;
            }
            let ended_ns = *ended_ns.get_or_insert(now_ns);
            let quiet = if self.complete() { TICK } else { self.plan.wait };
            let told = self.stop.load(Ordering::Relaxed);
            if told || now_ns.saturating_sub(ended_ns) >= nanoseconds(quiet) {
                return Ok(());
            }
        }
    }

    /// Whether all that was sent is back.
    fn complete(&self) -> bool {
        self.found.tracker.counts().distinct >= self.progress.sent.load(Ordering::Acquire)
    }

    fn account(&mut self, datagram: &Datagram) {
        let found = &mut self.found;
        found.datagrams += 1;
        found.not_by_kernel += u64::from(datagram.stamp_ns.is_none());
        let mut record = arrival::begun(datagram);
        match Header::read(datagram.payload) {
            Ok(header) if header.transmission == self.plan.transmission && !header.pktgen => {
                let highest = found.tracker.highest();
                record.sequence = header.place(highest);
                record.sent_ns = found.timing.sent_ns(&header, record.received_ns);
                let verdict = found.tracker.observe(record.sequence, 0);
                if verdict == Verdict::New {
                    found.timing.observe(header.clock, record.sent_ns, record.received_ns);
                }
                record.flags |= arrival::judged(verdict, record.sequence, highest);
            }
            _ => {
                found.foreign += 1;
                record.flags |= flags::FOREIGN;
            }
        }
        let header = self.header;
        if let Some(recorder) = &mut self.recorder {
            recorder.add(record, || header);
        }
    }
}

fn report(
    plan: &Plan,
    sender: &Sender,
    received: Received,
    intervals: Option<String>,
    stopped_by: Stopped,
    socket: &UdpSocket,
) -> io::Result<RoundTripReport> {
    let sent = sender.attempted - sender.unsent;
    let counts = received.tracker.counts();
    let mut errors = sender.errors.clone();
    errors.join(&received.errors);
    Ok(RoundTripReport {
        schema: SCHEMA,
        role: "round_trip",
        payload_bytes: plan.bytes,
        rate_asked: if intervals.is_none() { plan.rate } else { 0 },
        packets: SentReport {
            to: plan.to.to_string(),
            asked: plan.count,
            attempted: sender.attempted,
            sent,
            unsent: sender.unsent,
            errors: errors.named(),
            transmission: plan.transmission,
            intervals,
            pace: sender.departures.pace(sender.attempted, sent),
            stopped_by,
        },
        late: sender.departures.late(sender.attempted),
        received: received.datagrams,
        distinct: counts.distinct,
        duplicates: counts.duplicates,
        reordered: counts.reordered,
        too_old: counts.too_old,
        beyond: counts.beyond,
        foreign: received.foreign,
        lost: sent.saturating_sub(counts.distinct),
        drops: drops(socket)?,
        stamps: StampsReport {
            clock: record::clock_name(Clock::Realtime),
            kind: record::STAMPS,
            not_by_kernel: received.not_by_kernel,
            stepped_ns: received.timing.stepped_ns(),
        },
        inter_arrival: received.timing.inter_arrival().report(),
        jitter: received.timing.jitter().report(),
        round_trip: received.timing.delay().map_err(io::Error::other)?.report(),
        percentile_error: distribution::ERROR,
        record: received.record,
    })
}
