// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests and answers: over connections that are kept (request/response), or each over a connection
//! of its own (connect/request/response).
//!
//! One thread asks and waits for all answers. With a rate each transaction has its time, whatever
//! happened before: one that no connection is free for waits, and is late.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{getsockopt, sockopt};
use rand::SeedableRng;

use super::message::{Head, Incoming, Kind, LEN, Progress};
use super::pool::{Pool, Stage};
use super::report::{Ended, Errors, ErrorsReport, ExchangeReport};
use super::socket::{self, Poller, named};
use super::sources::Sources;
use super::{Span, TICK_NS, TURN, info, late, rate, seconds, told};
use crate::clock::{monotonic_ns, nanoseconds};
use crate::distribution;
use crate::generator::{Named, Random};
use crate::pace::{Gaps, Lateness, Rate, Schedule};
use crate::report::SCHEMA;

/// Bytes that are read at once.
const ROOM: usize = 64 << 10;
/// Connections that are kept are begun so many at once: more than that a server may not take.
const CONNECTING: u64 = 64;

/// Who closes a connection after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The server, which then keeps its end for a minute (`TIME_WAIT`); the client's port is free.
    Server,
    /// The client, whose port then is not free for a minute.
    Client,
    /// The client, by a reset: no port is kept at either end.
    Reset,
}

impl Close {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Reset => "reset",
        }
    }
}

/// What to ask, and how often.
pub struct Plan {
    /// Address and port of the server.
    pub to: SocketAddr,
    /// Addresses to connect from; `None`: the kernel chooses.
    pub from: Option<Sources>,
    /// How connections end; `None`: they are kept.
    pub close: Option<Close>,
    /// Connections at once.
    pub flows: usize,
    /// Transactions; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// Bytes of each request and of each answer, a header's at least.
    pub sizes: (u32, u32),
    /// Transactions per second, where there are no intervals; 0 is as fast as possible.
    pub rate: Rate,
    /// Times between transactions, instead of a rate.
    pub intervals: Option<Named>,
    /// What random intervals begin with.
    pub seed: u64,
    /// Longest time in which transactions are begun.
    pub limit: Duration,
    /// Longest time for a connection, for an answer, and for the server to close.
    pub timeout: Duration,
    /// Watch the clock for the last part of each wait instead of sleeping through it.
    pub spin: Duration,
    /// Transactions that begin later than this are counted.
    pub late: Duration,
}

/// A connection of a slot.
struct Link {
    socket: Option<TcpStream>,
    head: Head,
    written: usize,
    incoming: Incoming,
}

/// Ask until all is done, out of time, or told to stop.
///
/// # Errors
/// In one line what kept it from working at all. Connections that fail are part of the report.
pub fn run(mut plan: Plan, stop: &AtomicBool) -> Result<ExchangeReport, String> {
    socket::allow(plan.flows)?;
    let failed = |error: io::Error| format!("cannot wait for connections: {error}");
    let intervals = plan.intervals.take();
    let text = intervals.as_ref().map(|named| named.text.clone());
    let paced = intervals.is_some() || !plan.rate.is_zero();
    let gaps = match intervals {
        Some(named) => Gaps::Drawn(named.generator),
        None if paced => Gaps::Rate(plan.rate),
        None => Gaps::None,
    };
    let mut client = Client::new(plan, paced, stop).map_err(failed)?;
    client.run(gaps).map_err(failed)?;
    Ok(client.report(text))
}

struct Client<'a> {
    plan: Plan,
    stop: &'a AtomicBool,
    paced: bool,
    pool: Pool,
    links: Vec<Link>,
    poller: Poller,
    payload: Vec<u8>,
    room: Vec<u8>,
    errors: ErrorsReport,
    lateness: Lateness,
    span: Span,
    /// Transactions that were complete when the last one was begun.
    completed: u64,
    retransmitted: u64,
    expiry_ns: u64,
    ended: Option<Ended>,
}

impl<'a> Client<'a> {
    fn new(plan: Plan, paced: bool, stop: &'a AtomicBool) -> io::Result<Self> {
        let kind = if plan.close == Some(Close::Server) { Kind::Close } else { Kind::Keep };
        let head = Head { kind, request: plan.sizes.0, answer: plan.sizes.1, number: 0 };
        let link = || Link { socket: None, head, written: 0, incoming: Incoming::default() };
        Ok(Self {
            stop,
            paced,
            pool: Pool::new(plan.flows, plan.close.is_none()),
            links: (0..plan.flows).map(|_| link()).collect(),
            poller: Poller::new()?,
            payload: vec![0; plan.sizes.0 as usize],
            room: vec![0; ROOM],
            errors: ErrorsReport::default(),
            lateness: Lateness::default(),
            span: Span::default(),
            completed: 0,
            retransmitted: 0,
            expiry_ns: 0,
            ended: None,
            plan,
        })
    }

    fn kept(&self) -> bool {
        self.plan.close.is_none()
    }

    fn run(&mut self, gaps: Gaps) -> io::Result<()> {
        if self.kept() {
            self.connect_all()?;
        }
        let start_ns = monotonic_ns();
        let mut schedule = Schedule::new(start_ns, gaps, Random::seed_from_u64(self.plan.seed));
        let deadline_ns = start_ns.saturating_add(nanoseconds(self.plan.limit));
        let mut due_ns = schedule.next_ns();
        loop {
            if told(self.stop) {
                self.ended = Some(Ended::Signal);
            }
            if matches!(self.ended, Some(Ended::Signal | Ended::Unreachable)) {
                return Ok(());
            }
            self.again()?;
            let mut begun = 0;
            while self.ended.is_none() && begun < TURN && self.pool.next_ready().is_some() {
                let now_ns = monotonic_ns();
                if self.plan.count == Some(self.pool.transactions().attempted) {
                    self.ended = Some(Ended::Count);
                } else if now_ns.max(due_ns) >= deadline_ns {
                    self.ended = Some(Ended::Seconds);
                } else if due_ns > now_ns {
                    break;
                } else {
                    self.begin(due_ns, now_ns)?;
                    due_ns = schedule.next_ns();
                    begun += 1;
                }
            }
            let now_ns = monotonic_ns();
            if self.ended.is_none() && now_ns >= deadline_ns {
                self.ended = Some(Ended::Seconds);
            }
            if self.ended.is_some() && self.pool.transactions().under_way() == 0 {
                return Ok(());
            }
            let mut until_ns = self.expiry_ns;
            if self.ended.is_none() {
                until_ns = until_ns.min(deadline_ns);
                if self.pool.next_ready().is_some() {
                    until_ns = until_ns.min(due_ns.saturating_sub(nanoseconds(self.plan.spin)));
                }
                until_ns = until_ns.min(self.pool.rests_until().unwrap_or(u64::MAX));
            }
            self.wait(until_ns.saturating_sub(now_ns))?;
        }
    }

    /// Make all connections that are to be kept, and wait until each is there or has failed once.
    fn connect_all(&mut self) -> io::Result<()> {
        let mut left = self.links.len();
        while left > 0 || self.pool.connections().under_way() > 0 {
            if told(self.stop) || self.ended.is_some() {
                return Ok(());
            }
            while left > 0 && self.pool.connections().under_way() < CONNECTING {
                let now_ns = monotonic_ns();
                let slot = self.pool.rested(now_ns).expect("none of these has rested before");
                left -= 1;
                self.connect(slot, now_ns)?;
            }
            let now_ns = monotonic_ns();
            self.wait(self.expiry_ns.saturating_sub(now_ns))?;
        }
        Ok(())
    }

    /// Use slots again whose connection had failed.
    fn again(&mut self) -> io::Result<()> {
        let now_ns = monotonic_ns();
        while self.ended.is_none() {
            let Some(slot) = self.pool.rested(now_ns) else { break };
            if self.kept() {
                self.connect(slot, now_ns)?;
            } else {
                self.pool.release(slot);
            }
        }
        Ok(())
    }

    /// Begin a transaction.
    fn begin(&mut self, due_ns: u64, now_ns: u64) -> io::Result<()> {
        if self.paced {
            self.lateness.add(now_ns.saturating_sub(due_ns), nanoseconds(self.plan.late));
        }
        self.span.add(now_ns, due_ns);
        self.completed = self.pool.transactions().completed;
        let slot = self.pool.begin(due_ns, now_ns).expect("one is ready");
        if self.kept() { self.ask(slot) } else { self.connect(slot, now_ns) }
    }

    fn connect(&mut self, slot: usize, now_ns: u64) -> io::Result<()> {
        self.pool.connecting(slot, now_ns);
        let link = &mut self.links[slot];
        (link.head.number, link.incoming) = (0, Incoming::default());
        match socket::begin(self.plan.to, self.plan.from.as_mut()) {
            Ok(socket) => {
                let all = EpollFlags::EPOLLIN
                    | EpollFlags::EPOLLOUT
                    | EpollFlags::EPOLLRDHUP
                    | EpollFlags::EPOLLET;
                self.poller.add(&socket, slot, all)?;
                link.socket = Some(socket);
            }
            Err(error) => self.fail(slot, &named(&error))?,
        }
        Ok(())
    }

    /// Wait so long at most, and go on with what can.
    fn wait(&mut self, ns: u64) -> io::Result<()> {
        for (slot, flags) in self.poller.wait(ns.min(TICK_NS))? {
            self.go_on(slot, flags)?;
            // The end may have come with the answer, and is told once.
            if flags.contains(EpollFlags::EPOLLRDHUP) && self.pool.stage(slot) == Stage::Ready {
                self.read(slot)?;
            }
        }
        let now_ns = monotonic_ns();
        if now_ns >= self.expiry_ns {
            self.expiry_ns = now_ns.saturating_add(TICK_NS);
            for slot in self.pool.expired(nanoseconds(self.plan.timeout), now_ns) {
                self.fail(slot, "ETIMEDOUT")?;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, slot: usize, flags: EpollFlags) -> io::Result<()> {
        let Some(socket) = &self.links[slot].socket else { return Ok(()) };
        match self.pool.stage(slot) {
            Stage::Idle => Ok(()),
            Stage::Connecting => {
                let some = EpollFlags::EPOLLOUT | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
                if !flags.intersects(some) {
                    return Ok(());
                }
                match getsockopt(socket, sockopt::SocketError)? {
                    0 => {
                        self.pool.connected(slot, monotonic_ns());
                        if self.kept() { Ok(()) } else { self.ask(slot) }
                    }
                    number => self.fail(slot, &named(&io::Error::from_raw_os_error(number))),
                }
            }
            Stage::Exchanging if self.links[slot].written < self.payload.len() => {
                // An answer may be there already only if the server does not know ours.
                self.write(slot)
            }
            Stage::Exchanging | Stage::Closing | Stage::Ready => self.read(slot),
        }
    }

    /// Send the next request of a slot.
    fn ask(&mut self, slot: usize) -> io::Result<()> {
        let link = &mut self.links[slot];
        link.head.number = link.head.number.wrapping_add(1);
        link.written = 0;
        self.write(slot)
    }

    fn write(&mut self, slot: usize) -> io::Result<()> {
        let link = &mut self.links[slot];
        // Slots share it, but for the header.
        self.payload[..LEN].copy_from_slice(&link.head.bytes());
        while link.written < self.payload.len() {
            let Some(socket) = &mut link.socket else { return Ok(()) };
            match socket.write(&self.payload[link.written..]) {
                Ok(bytes) => link.written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.fail(slot, &named(&error)),
            }
        }
        Ok(())
    }

    fn read(&mut self, slot: usize) -> io::Result<()> {
        loop {
            let link = &mut self.links[slot];
            let Some(socket) = &mut link.socket else { return Ok(()) };
            let stage = self.pool.stage(slot);
            let bytes = match socket.read(&mut self.room) {
                Ok(0) if stage == Stage::Closing => {
                    self.pool.closed(slot);
                    self.links[slot].socket = None;
                    return Ok(());
                }
                Ok(0) => return self.fail(slot, "closed"),
                Ok(_) if stage != Stage::Exchanging => return self.fail(slot, "garbled"),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.fail(slot, &named(&error)),
            };
            match link.incoming.feed(&self.room[..bytes], |head| head.answer) {
                // Nothing more is told of an end that came with this piece: read until nothing is there.
                Progress::Partly => (),
                Progress::Whole(head, 0) if head == link.head.answered() => {
                    let closes = self.plan.close == Some(Close::Server);
                    self.pool.answered(slot, closes, monotonic_ns());
                    if !closes {
                        return self.answered(slot);
                    }
                }
                Progress::Whole(..) | Progress::Foreign => return self.fail(slot, "garbled"),
            }
        }
    }

    /// What is done with a connection whose answer is there.
    fn answered(&mut self, slot: usize) -> io::Result<()> {
        match self.plan.close {
            None | Some(Close::Server) => Ok(()),
            Some(Close::Client) => {
                self.links[slot].socket = None;
                Ok(())
            }
            Some(Close::Reset) => self.links[slot].socket.take().map_or(Ok(()), socket::reset),
        }
    }

    /// Count what went wrong with a slot's connection, and leave it.
    fn fail(&mut self, slot: usize, why: &str) -> io::Result<()> {
        let stage = self.pool.stage(slot);
        let errors: &mut Errors = match stage {
            Stage::Connecting | Stage::Idle => &mut self.errors.connect,
            Stage::Exchanging | Stage::Closing => &mut self.errors.request,
            Stage::Ready => &mut self.errors.idle,
        };
        *errors.entry(why.to_owned()).or_default() += 1;
        self.pool.failed(slot, monotonic_ns());
        if self.pool.connections().completed == 0 && self.ended.is_none() {
            self.ended = Some(Ended::Unreachable);
        }
        let Some(socket) = self.links[slot].socket.take() else { return Ok(()) };
        self.retransmitted += info::of(&socket)?.retransmitted;
        socket::reset(socket)
    }

    fn report(mut self, intervals: Option<String>) -> ExchangeReport {
        let kept = self.kept();
        let open = self.links.iter().filter_map(|link| link.socket.as_ref());
        let again = open.filter_map(|socket| info::of(socket).ok());
        self.retransmitted += again.map(|info| info.retransmitted).sum::<u64>();
        let (done, times) = (self.pool.transactions(), self.pool.times());
        let (took_ns, planned_ns) = self.span.ns();
        // With a rate each transaction has its time, so the last ones count as well. Without one the
        // next is begun when another is complete: those under way at the end have no time yet.
        let counted = if self.paced { done.completed.saturating_sub(1) } else { self.completed };
        ExchangeReport {
            schema: SCHEMA,
            role: if kept { "tcp_rr" } else { "tcp_crr" },
            to: self.plan.to.to_string(),
            from: self.plan.from.map(|from| from.to_string()),
            asked: self.plan.count,
            flows: self.plan.flows,
            request_bytes: self.plan.sizes.0,
            response_bytes: self.plan.sizes.1,
            close: self.plan.close.map(Close::name),
            transactions: done.into(),
            connections: self.pool.connections().into(),
            rate_asked: self.plan.rate,
            rate_planned: rate(self.span.count.saturating_sub(1), planned_ns)
                .filter(|_| self.paced),
            rate_reached: rate(counted, took_ns),
            seconds: seconds(took_ns),
            late: self
                .paced
                .then(|| late(&self.lateness, self.span.count, nanoseconds(self.plan.late))),
            connect: times.connect.report(),
            request: times.request.report(),
            transaction: times.transaction.report(),
            since_due: self.paced.then(|| times.since_due.report()),
            percentile_error: distribution::ERROR,
            retransmitted: kept.then_some(self.retransmitted),
            stopped_by: self.ended.unwrap_or(Ended::Signal),
            intervals,
            errors: self.errors,
        }
    }
}
