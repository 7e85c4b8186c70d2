// SPDX-License-Identifier: GPL-2.0-or-later
//! Streams: as many bytes as the connections take, or bits at a rate.
//!
//! Writes have one size. With a rate each has its time, and goes to the next connection that can take
//! it. At the end each connection is closed for writing, and the server tells how much came. In reverse
//! the server sends as much as it can until then, and tells how much that was.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{getsockopt, sockopt};
use rand::SeedableRng;

use super::message::{Head, Kind, LEN, STREAM_ANSWER, Total};
use super::pool::Tally;
use super::report::{Ended, Errors, ErrorsReport, FlowReport, StreamReport};
use super::socket::{self, Poller, named};
use super::sources::Sources;
use super::{Span, TICK_NS, TURN, info, late, rate, seconds, told};
use crate::clock::{NS_PER_SEC, monotonic_ns, nanoseconds};
use crate::distribution::{self, Distribution};
use crate::generator::{Random, Unit, parse};
use crate::pace::{Gaps, Lateness, Schedule};
use crate::report::SCHEMA;

/// The kernel is asked for its figures so often, nanoseconds.
const SAMPLE_NS: u64 = NS_PER_SEC / 10;
const BITS: u64 = 8;
/// Bytes that are read at once of what the server sends.
const ROOM: usize = 256 << 10;

/// What to send.
pub struct Plan {
    /// Address and port of the server.
    pub to: SocketAddr,
    /// Addresses to connect from; `None`: the kernel chooses.
    pub from: Option<Sources>,
    /// Connections.
    pub flows: usize,
    /// Writes; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// Bytes of each write.
    pub bytes: u32,
    /// Bits per second of all connections; 0 is as fast as possible.
    pub rate: u64,
    /// The server sends, as fast as possible, until the time limit.
    pub reverse: bool,
    /// Longest time to send.
    pub limit: Duration,
    /// Longest time for a connection, and for the server to tell how much came.
    pub timeout: Duration,
    /// Watch the clock for the last part of each wait instead of sleeping through it.
    pub spin: Duration,
    /// Writes that begin later than this are counted.
    pub late: Duration,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Sending,
    /// All is sent, and the server is to tell how much came.
    Closing,
    Over,
}

struct Flow {
    socket: Option<TcpStream>,
    stage: Stage,
    since_ns: u64,
    /// Bytes of a write that are still to go.
    left: usize,
    /// Whether it waits in the queue of those that can be written to.
    queued: bool,
    /// What came, and the last bytes of it.
    came: u64,
    tail: Vec<u8>,
    told: Total,
    report: FlowReport,
    info: info::Info,
}

/// Send until all is done, out of time, or told to stop.
///
/// # Errors
/// In one line what kept it from working at all. Connections that fail are part of the report.
pub fn run(plan: Plan, stop: &AtomicBool) -> Result<StreamReport, String> {
    socket::allow(plan.flows)?;
    let failed = |error: io::Error| format!("cannot wait for connections: {error}");
    let mut client = Client::new(plan, stop).map_err(failed)?;
    client.run().map_err(failed)?;
    Ok(client.report())
}

struct Client<'a> {
    plan: Plan,
    stop: &'a AtomicBool,
    flows: Vec<Flow>,
    connections: Tally,
    connected: u64,
    writable: VecDeque<usize>,
    poller: Poller,
    payload: Vec<u8>,
    room: Vec<u8>,
    head: [u8; LEN],
    errors: ErrorsReport,
    lateness: Lateness,
    span: Span,
    rtt: Distribution,
    expiry_ns: u64,
    sample_ns: u64,
    told_ns: u64,
    ended: Option<Ended>,
}

impl<'a> Client<'a> {
    fn new(plan: Plan, stop: &'a AtomicBool) -> io::Result<Self> {
        let least = u32::try_from(LEN).unwrap_or(0);
        let kind = if plan.reverse { Kind::Source } else { Kind::Stream };
        let head = Head { kind, request: least, answer: least, number: 1 };
        let flow = || Flow {
            socket: None,
            stage: Stage::Over,
            since_ns: 0,
            left: 0,
            queued: false,
            came: 0,
            tail: Vec::new(),
            told: Total::default(),
            report: FlowReport::default(),
            info: info::Info::default(),
        };
        Ok(Self {
            stop,
            flows: (0..plan.flows).map(|_| flow()).collect(),
            connections: Tally::default(),
            connected: 0,
            writable: VecDeque::new(),
            poller: Poller::new()?,
            payload: vec![0; plan.bytes as usize],
            room: vec![0; if plan.reverse { ROOM } else { STREAM_ANSWER + 1 }],
            head: head.bytes(),
            errors: ErrorsReport::default(),
            lateness: Lateness::default(),
            span: Span::default(),
            rtt: Distribution::default(),
            expiry_ns: 0,
            sample_ns: 0,
            told_ns: 0,
            ended: None,
            plan,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        self.connect_all()?;
        let start_ns = monotonic_ns();
        let mut schedule = Schedule::new(
            start_ns,
            gaps(self.plan.rate, self.plan.bytes),
            Random::seed_from_u64(1),
        );
        let deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let mut due_ns = schedule.next_ns();
        while self.ended.is_none() {
            let mut begun = 0;
            while self.ended.is_none() && begun < TURN && !self.writable.is_empty() {
                let now_ns = monotonic_ns();
                if self.plan.count == Some(self.span.count) {
                    self.ended = Some(Ended::Count);
                } else if now_ns.max(due_ns) >= deadline_ns {
                    self.ended = Some(Ended::Seconds);
                } else if due_ns > now_ns {
                    break;
                } else {
                    if self.write(due_ns, now_ns)? {
                        due_ns = schedule.next_ns();
                    }
                    begun += 1;
                }
            }
            let now_ns = monotonic_ns();
            if told(self.stop) {
                self.ended = Some(Ended::Signal);
            } else if self.ended.is_none() && now_ns >= deadline_ns {
                self.ended = Some(Ended::Seconds);
            } else if self.connections.under_way() == 0 && self.ended.is_none() {
                // All of them have failed.
                self.ended = Some(Ended::Unreachable);
            }
            let mut until_ns = self.expiry_ns.min(deadline_ns);
            if !self.writable.is_empty() {
                until_ns = until_ns.min(due_ns.saturating_sub(nanoseconds(self.plan.spin)));
            }
            self.wait(until_ns.saturating_sub(now_ns))?;
        }
        self.close_all()
    }

    /// Connect, and wait until each is there or has failed.
    fn connect_all(&mut self) -> io::Result<()> {
        for at in 0..self.flows.len() {
            self.connections.attempted += 1;
            self.flows[at].since_ns = monotonic_ns();
            self.flows[at].stage = Stage::Connecting;
            match socket::begin(self.plan.to, self.plan.from.as_mut()) {
                Ok(socket) => {
                    let all = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
                    self.poller.add(&socket, at, all)?;
                    self.flows[at].socket = Some(socket);
                }
                Err(error) => self.fail(at, &named(&error))?,
            }
        }
        while self.flows.iter().any(|flow| flow.stage == Stage::Connecting) {
            if told(self.stop) {
                self.ended = Some(Ended::Signal);
                return Ok(());
            }
            if self.connected == 0 && self.connections.failed > 0 {
                self.ended = Some(Ended::Unreachable);
                return Ok(());
            }
            self.wait(TICK_NS)?;
        }
        Ok(())
    }

    /// Have the server tell how much came.
    fn close_all(&mut self) -> io::Result<()> {
        let now_ns = monotonic_ns();
        for at in 0..self.flows.len() {
            self.flows[at].since_ns = now_ns;
            self.close(at)?;
        }
        while self.flows.iter().any(|flow| matches!(flow.stage, Stage::Closing | Stage::Sending)) {
            // The first signal ends the sending; what is under way has its time to come.
            let signal = self.ended == Some(Ended::Signal);
            if self.ended == Some(Ended::Unreachable) || (told(self.stop) && !signal) {
                return Ok(());
            }
            self.wait(TICK_NS)?;
        }
        Ok(())
    }

    /// Close a connection for writing, once the write that was begun is done.
    fn close(&mut self, at: usize) -> io::Result<()> {
        if self.flows[at].stage != Stage::Sending {
            return Ok(());
        }
        self.flush(at)?;
        let flow = &mut self.flows[at];
        let Some(socket) = flow.socket.as_ref().filter(|_| flow.left == 0) else { return Ok(()) };
        match socket.shutdown(Shutdown::Write) {
            Ok(()) => {
                flow.stage = Stage::Closing;
                // Of what waits here already nothing more is told.
                self.answer(at)
            }
            Err(error) => self.fail(at, &named(&error)),
        }
    }

    /// Begin a write on the next connection that takes one; whether one was begun.
    fn write(&mut self, due_ns: u64, now_ns: u64) -> io::Result<bool> {
        let Some(at) = self.writable.pop_front() else { return Ok(false) };
        self.flows[at].queued = false;
        if self.plan.reverse {
            return self.take(at, now_ns);
        }
        // What is left of the one before comes first.
        self.flush(at)?;
        if self.flows[at].left > 0 || self.flows[at].stage != Stage::Sending {
            return Ok(false);
        }
        if self.plan.rate > 0 {
            self.lateness.add(now_ns.saturating_sub(due_ns), nanoseconds(self.plan.late));
        }
        self.span.add(now_ns, due_ns);
        self.flows[at].left = self.payload.len();
        self.flush(at)?;
        let flow = &mut self.flows[at];
        if flow.left == 0 && flow.stage == Stage::Sending && !flow.queued {
            flow.queued = true;
            self.writable.push_back(at);
        }
        Ok(true)
    }

    /// Read some of what the server sends; whether something came.
    fn take(&mut self, at: usize, now_ns: u64) -> io::Result<bool> {
        let before = self.flows[at].came;
        if !self.read(at)? {
            return Ok(false);
        }
        let flow = &mut self.flows[at];
        flow.queued = true;
        self.writable.push_back(at);
        if flow.came > before {
            self.span.add(now_ns, now_ns);
        }
        Ok(true)
    }

    /// Write what is left of a connection's write, as far as it goes.
    fn flush(&mut self, at: usize) -> io::Result<()> {
        loop {
            let flow = &mut self.flows[at];
            let Some(socket) = flow.socket.as_mut().filter(|_| flow.left > 0) else {
                return Ok(());
            };
            match socket.write(&self.payload[self.payload.len() - flow.left..]) {
                Ok(bytes) => {
                    flow.left -= bytes;
                    flow.report.sent_bytes += bytes as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.fail(at, &named(&error)),
            }
        }
    }

    fn wait(&mut self, ns: u64) -> io::Result<()> {
        for (at, flags) in self.poller.wait(ns.min(TICK_NS))? {
            self.go_on(at, flags)?;
        }
        let now_ns = monotonic_ns();
        if now_ns >= self.expiry_ns {
            self.expiry_ns = now_ns.saturating_add(TICK_NS);
            let timeout_ns = nanoseconds(self.plan.timeout);
            for at in 0..self.flows.len() {
                let flow = &self.flows[at];
                // A stream may rest as long as it is sent; at its end it has so much time.
                let waits = flow.stage == Stage::Connecting
                    || flow.stage == Stage::Closing
                    || (flow.stage == Stage::Sending && self.ended.is_some());
                if waits && now_ns.saturating_sub(flow.since_ns) > timeout_ns {
                    self.fail(at, "ETIMEDOUT")?;
                }
            }
        }
        if now_ns >= self.sample_ns {
            self.sample_ns = now_ns.saturating_add(SAMPLE_NS);
            self.sample()?;
        }
        Ok(())
    }

    /// Ask the kernel for the figures of all that send.
    fn sample(&mut self) -> io::Result<()> {
        for flow in &mut self.flows {
            let Some(socket) = flow.socket.as_ref().filter(|_| flow.stage == Stage::Sending) else {
                continue;
            };
            flow.info = info::of(socket)?;
            // Who only receives has no round trips.
            if flow.info.rtt_ns > 0 && !self.plan.reverse {
                self.rtt.add(flow.info.rtt_ns);
            }
        }
        Ok(())
    }

    fn go_on(&mut self, at: usize, flags: EpollFlags) -> io::Result<()> {
        let flow = &mut self.flows[at];
        let Some(socket) = &mut flow.socket else { return Ok(()) };
        match flow.stage {
            Stage::Connecting => match getsockopt(socket, sockopt::SocketError)? {
                0 => {
                    // An empty buffer takes a header whole.
                    match socket.write(&self.head) {
                        Ok(LEN) => (),
                        Ok(_) => return self.fail(at, "garbled"),
                        Err(error) => return self.fail(at, &named(&error)),
                    }
                    (flow.stage, flow.queued) = (Stage::Sending, true);
                    self.connected += 1;
                    self.writable.push_back(at);
                    Ok(())
                }
                number => self.fail(at, &named(&io::Error::from_raw_os_error(number))),
            },
            Stage::Sending => {
                let comes = flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLERR);
                if comes && !self.plan.reverse {
                    // Nothing is to come yet: what does is its end.
                    return self.answer(at);
                }
                if self.ended.is_some() {
                    return self.close(at);
                }
                if !flow.queued {
                    flow.queued = true;
                    self.writable.push_back(at);
                }
                Ok(())
            }
            Stage::Closing => self.answer(at),
            Stage::Over => Ok(()),
        }
    }

    /// Read what is there, to the end.
    fn answer(&mut self, at: usize) -> io::Result<()> {
        while self.read(at)? {}
        Ok(())
    }

    /// Read once; whether there may be more.
    fn read(&mut self, at: usize) -> io::Result<bool> {
        let flow = &mut self.flows[at];
        let Some(socket) = &mut flow.socket else { return Ok(false) };
        match socket.read(&mut self.room) {
            Ok(0) => self.over(at).map(|()| false),
            Ok(bytes) => {
                flow.came += bytes as u64;
                // The answer is the end of what comes.
                flow.tail.extend(&self.room[bytes.saturating_sub(STREAM_ANSWER)..bytes]);
                let more = flow.tail.len().saturating_sub(STREAM_ANSWER);
                flow.tail.drain(..more);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => self.fail(at, &named(&error)).map(|()| false),
        }
    }

    /// The server has closed a connection.
    fn over(&mut self, at: usize) -> io::Result<()> {
        let flow = &mut self.flows[at];
        let head = flow.tail.first_chunk().and_then(Head::read);
        let total = flow.tail.get(LEN..).and_then(|rest| rest.first_chunk()).map(Total::read);
        let (Stage::Closing, Some(head), Some(total)) = (flow.stage, head, total) else {
            return self.fail(at, "closed");
        };
        let streamed = flow.came - STREAM_ANSWER as u64;
        let expected = if self.plan.reverse { total.bytes } else { 0 };
        if head.kind != Kind::Answer || streamed != expected {
            return self.fail(at, "garbled");
        }
        if self.plan.reverse {
            flow.report.sent_bytes = total.bytes;
        }
        flow.told = total;
        flow.report.received_bytes = Some(total.bytes);
        flow.report.received_seconds = Some(seconds(total.ns));
        flow.stage = Stage::Over;
        self.told_ns = monotonic_ns();
        self.connections.completed += 1;
        if let Some(socket) = flow.socket.take() {
            flow.info = info::of(&socket)?;
        }
        Ok(())
    }

    /// Count what went wrong with a connection, and leave it.
    fn fail(&mut self, at: usize, why: &str) -> io::Result<()> {
        let flow = &mut self.flows[at];
        let errors: &mut Errors = match flow.stage {
            Stage::Connecting => &mut self.errors.connect,
            _ => &mut self.errors.request,
        };
        *errors.entry(why.to_owned()).or_default() += 1;
        self.connections.failed += 1;
        flow.stage = Stage::Over;
        self.writable.retain(|&other| other != at);
        let Some(socket) = flow.socket.take() else { return Ok(()) };
        flow.info = info::of(&socket)?;
        socket::reset(socket)
    }

    fn report(mut self) -> StreamReport {
        for flow in &mut self.flows {
            if let Some(info) = flow.socket.as_ref().and_then(|socket| info::of(socket).ok()) {
                flow.info = info;
            }
            if self.plan.reverse {
                // What the kernel here knows is of the other direction.
                flow.info = info::Info {
                    rtt_ns: flow.told.rtt_ns,
                    retransmitted: flow.told.retransmitted,
                    ..info::Info::default()
                };
            }
            flow.report.rtt_ns = flow.info.rtt_ns;
            flow.report.min_rtt_ns = flow.info.min_rtt_ns;
            flow.report.retransmitted = flow.info.retransmitted;
        }
        let sum = |one: fn(&Flow) -> u64| self.flows.iter().map(one).sum::<u64>();
        let whole = |one: fn(&Flow) -> Option<u64>| self.flows.iter().map(one).sum::<Option<u64>>();
        let (took_ns, planned_ns) = self.span.ns();
        let first_ns = self.span.first.map_or(self.told_ns, |(now_ns, _)| now_ns);
        let received_ns = self.told_ns.saturating_sub(first_ns);
        let received_bytes = sum(|flow| flow.report.received_bytes.unwrap_or(0));
        let sent_bytes = sum(|flow| flow.report.sent_bytes);
        let bits = u64::from(self.plan.bytes) * BITS;
        let writes = self.span.count.saturating_sub(1);
        let paced = self.plan.rate > 0;
        StreamReport {
            schema: SCHEMA,
            role: "tcp_stream",
            to: self.plan.to.to_string(),
            from: self.plan.from.map(|from| from.to_string()),
            asked: self.plan.count,
            reverse: self.plan.reverse,
            write_bytes: (!self.plan.reverse).then_some(self.plan.bytes),
            writes: (!self.plan.reverse).then_some(self.span.count),
            connections: self.connections.into(),
            sent_bytes,
            received_bytes,
            rate_asked: self.plan.rate,
            rate_planned: rate(writes * bits, planned_ns).filter(|_| paced),
            rate_reached: rate(writes * bits, took_ns).filter(|_| !self.plan.reverse),
            seconds: seconds(took_ns),
            received_rate: rate(received_bytes * BITS, received_ns),
            received_seconds: seconds(received_ns),
            late: paced.then(|| late(&self.lateness, self.span.count, nanoseconds(self.plan.late))),
            rtt: self.rtt.report(),
            percentile_error: distribution::ERROR,
            segments: whole(|flow| flow.info.segments),
            retransmitted: sum(|flow| flow.info.retransmitted),
            retransmitted_bytes: whole(|flow| flow.info.retransmitted_bytes),
            stopped_by: self.ended.unwrap_or(Ended::Signal),
            errors: self.errors,
            flows: self.flows.into_iter().map(|flow| flow.report).collect(),
        }
    }
}

/// Times between writes of so many bytes at so many bits per second.
fn gaps(rate: u64, bytes: u32) -> Gaps {
    if rate == 0 {
        return Gaps::None;
    }
    let gap_ns = u64::from(bytes) as f64 * BITS as f64 * NS_PER_SEC as f64 / rate as f64;
    Gaps::Drawn(parse(&format!("{gap_ns}ns"), Unit::Time).expect("it is one time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The thousandth write is due when as many bits are.
        #[test]
        fn writes_are_as_far_apart_as_their_bits(
            rate in 1_000_u64..1_000_000_000_000, bytes in 1_u32..1 << 20
        ) {
            let mut schedule = Schedule::new(0, gaps(rate, bytes), Random::seed_from_u64(1));
            let due_ns = (0..1001).map(|_| schedule.next_ns()).last().unwrap();
            let expected = f64::from(bytes) * 8e12 / rate as f64;
            prop_assert!((due_ns as f64 - expected).abs() <= 1.0 + expected * 1e-9);
        }
    }
}
