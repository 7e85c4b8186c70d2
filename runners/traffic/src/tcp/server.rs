// SPDX-License-Identifier: GPL-2.0-or-later
//! The server: it answers requests, and takes streams. It does what each request's header asks for.
//!
//! One thread has all connections. What it knows of one has a fixed size, whatever comes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::sys::epoll::EpollFlags;

use super::message::{Head, Incoming, Kind, LEN, Progress, STREAM_ANSWER, Total};
use super::report::{ClosedReport, Ended, Errors, ServeReport};
use super::socket::{self, Poller, named};
use super::{TICK_NS, TURN, info, told};
use crate::clock::{monotonic_ns, nanoseconds};
use crate::report::SCHEMA;

/// Bytes that are read and written at once.
const ROOM: usize = 256 << 10;
/// What the socket that listens is called, and the first of the connections.
const LISTENER: usize = 0;
const FIRST: usize = 1;

/// What to serve.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Address and port to listen on.
    pub bind: SocketAddr,
    /// Longest time; `None` is until it is told to stop.
    pub limit: Option<Duration>,
    /// Connections at once, at most.
    pub connections: usize,
    /// A connection that nothing comes or goes on for so long is given up.
    pub idle: Duration,
}

/// What is done for a connection.
#[derive(Debug)]
enum Stage {
    /// A request is waited for; `answered` says whether there was one before.
    Request { incoming: Incoming, answered: bool },
    /// An answer is written: so many bytes of it were.
    Answer { head: Head, written: u32 },
    /// A stream comes.
    Stream { head: Head, bytes: u64, first_ns: u64, last_ns: u64 },
    /// A stream is sent until the client ends its side.
    Source { head: Head, bytes: u64, first_ns: u64, last_ns: u64 },
    /// What came of a stream is told: so many bytes of it were.
    Told { answer: [u8; STREAM_ANSWER], written: usize },
}

/// A connection.
struct Served {
    socket: TcpStream,
    stage: Stage,
    /// When something came or went.
    active_ns: u64,
    /// What is waited for.
    flags: EpollFlags,
}

/// How a connection ends.
enum End {
    Client,
    Server,
    Reset,
    Failed(String),
}

/// A server that listens.
pub struct Server<'a> {
    plan: Plan,
    stop: &'a AtomicBool,
    listener: TcpListener,
    listens: bool,
    poller: Poller,
    served: Vec<Option<Served>>,
    free: Vec<usize>,
    room: Vec<u8>,
    zeros: Vec<u8>,
    report: ServeReport,
}

impl<'a> Server<'a> {
    /// Listen; from here on connections are made.
    ///
    /// # Errors
    /// In one line what is wrong, e.g. an address in use.
    pub fn bind(plan: &Plan, stop: &'a AtomicBool) -> Result<Self, String> {
        socket::allow(plan.connections)?;
        let failed = |error: io::Error| {
            format!("cannot listen on {}: {}", plan.bind, crate::socket::describe(&error))
        };
        let listener = socket::listening(plan.bind).map_err(failed)?;
        let poller = Poller::new().map_err(failed)?;
        poller.add(&listener, LISTENER, EpollFlags::EPOLLIN).map_err(failed)?;
        let bind = listener.local_addr().map_err(failed)?.to_string();
        Ok(Self {
            plan: *plan,
            stop,
            listener,
            listens: true,
            poller,
            served: Vec::new(),
            free: Vec::new(),
            room: vec![0; ROOM],
            zeros: vec![0; ROOM],
            report: ServeReport {
                schema: SCHEMA,
                role: "tcp_serve",
                bind,
                accepted: 0,
                closed: ClosedReport::default(),
                failed: 0,
                open: 0,
                most_open: 0,
                answered: 0,
                streams: 0,
                received_bytes: 0,
                sent_bytes: 0,
                errors: Errors::new(),
                full: 0,
                stopped_by: Ended::Signal,
            },
        })
    }

    /// The address bound, with the port the kernel chose if 0 was asked for.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serve until time is up, or told to stop.
    ///
    /// # Errors
    /// What the kernel said. Connections that fail are part of the report.
    pub fn run(mut self) -> io::Result<ServeReport> {
        let deadline_ns = self
            .plan
            .limit
            .map_or(u64::MAX, |limit| monotonic_ns().saturating_add(nanoseconds(limit)));
        let mut expiry_ns = 0;
        self.report.stopped_by = loop {
            let now_ns = monotonic_ns();
            if told(self.stop) {
                break Ended::Signal;
            }
            if now_ns >= deadline_ns {
                break Ended::Seconds;
            }
            for (token, _) in self.poller.wait(TICK_NS.min(deadline_ns - now_ns))? {
                if token == LISTENER {
                    self.accept()?;
                } else {
                    self.serve(token - FIRST)?;
                }
            }
            if monotonic_ns() >= expiry_ns {
                expiry_ns = monotonic_ns().saturating_add(TICK_NS);
                self.expire()?;
            }
        };
        Ok(self.report)
    }

    /// Take connections that wait, some at a time: others have their turn.
    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..TURN {
            if self.full() {
                self.report.full += 1;
                return self.pause();
            }
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Of a connection that is gone before it was taken, or of a lack of files or memory.
                Err(error) => {
                    *self.report.errors.entry(named(&error)).or_default() += 1;
                    return self.pause();
                }
            };
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let at = self.free.pop().unwrap_or(self.served.len());
            self.poller.add(&socket, at + FIRST, EpollFlags::EPOLLIN)?;
            let stage = Stage::Request { incoming: Incoming::default(), answered: false };
            let served =
                Served { socket, stage, active_ns: monotonic_ns(), flags: EpollFlags::EPOLLIN };
            if at == self.served.len() {
                self.served.push(Some(served));
            } else {
                self.served[at] = Some(served);
            }
            self.report.accepted += 1;
            self.report.open += 1;
            self.report.most_open = self.report.most_open.max(self.report.open);
            // Its request is often there already.
            self.serve(at)?;
        }
        Ok(())
    }

    /// Take no connections for a while: it would be said again and again that some wait.
    fn pause(&mut self) -> io::Result<()> {
        self.listens = false;
        self.poller.remove(&self.listener)
    }

    /// Take connections again, if there is room for them.
    fn resume(&mut self) -> io::Result<()> {
        if self.listens || self.full() {
            return Ok(());
        }
        self.listens = true;
        self.poller.add(&self.listener, LISTENER, EpollFlags::EPOLLIN)
    }

    fn full(&self) -> bool {
        self.report.open >= self.plan.connections as u64
    }

    /// Go on with a connection as far as that goes now.
    fn serve(&mut self, at: usize) -> io::Result<()> {
        let Some(served) = self.served.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        served.active_ns = monotonic_ns();
        if let Some(end) = step(served, &mut self.room, &mut self.zeros, &mut self.report) {
            return self.end(at, end);
        }
        let flags = match served.stage {
            Stage::Request { .. } | Stage::Stream { .. } => EpollFlags::EPOLLIN,
            Stage::Answer { .. } | Stage::Told { .. } => EpollFlags::EPOLLOUT,
            Stage::Source { .. } => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
        };
        if flags == served.flags {
            return Ok(());
        }
        served.flags = flags;
        self.poller.change(&served.socket, at + FIRST, flags)
    }

    fn expire(&mut self) -> io::Result<()> {
        let (now_ns, idle_ns) = (monotonic_ns(), nanoseconds(self.plan.idle));
        for at in 0..self.served.len() {
            let served = self.served[at].as_ref();
            if served.is_some_and(|one| now_ns.saturating_sub(one.active_ns) > idle_ns) {
                self.end(at, End::Failed("ETIMEDOUT".to_owned()))?;
            }
        }
        self.resume()
    }

    fn end(&mut self, at: usize, end: End) -> io::Result<()> {
        let Some(served) = self.served[at].take() else { return Ok(()) };
        self.free.push(at);
        self.report.open -= 1;
        match end {
            End::Client => self.report.closed.by_client += 1,
            End::Server => self.report.closed.by_server += 1,
            End::Reset => self.report.closed.by_reset += 1,
            End::Failed(why) => {
                self.report.failed += 1;
                *self.report.errors.entry(why).or_default() += 1;
                socket::reset(served.socket)?;
            }
        }
        self.resume()
    }
}

/// What is to be done by what came of a request, if it is whole.
fn asked(incoming: &mut Incoming, piece: &[u8]) -> Result<Option<Stage>, End> {
    // Of a stream the header alone is the request, whatever follows it.
    let size = |head: &Head| match head.kind {
        Kind::Stream | Kind::Source => u32::try_from(LEN).unwrap_or(0),
        _ => head.request,
    };
    match incoming.feed(piece, size) {
        Progress::Partly => Ok(None),
        Progress::Whole(head, behind) if head.kind == Kind::Stream => {
            let now_ns = monotonic_ns();
            let bytes = behind as u64;
            Ok(Some(Stage::Stream { head, bytes, first_ns: now_ns, last_ns: now_ns }))
        }
        Progress::Whole(head, 0) if head.kind == Kind::Source => {
            let now_ns = monotonic_ns();
            Ok(Some(Stage::Source { head, bytes: 0, first_ns: now_ns, last_ns: now_ns }))
        }
        Progress::Whole(head, 0) if head.kind != Kind::Answer => {
            Ok(Some(Stage::Answer { head, written: 0 }))
        }
        Progress::Whole(..) | Progress::Foreign => Err(End::Failed("foreign".to_owned())),
    }
}

/// Send some of a stream, as much as the kernel takes at once; `None` once the client has ended its
/// side.
fn pour(socket: &mut TcpStream, room: &mut [u8], zeros: &mut [u8]) -> Result<Option<usize>, End> {
    let failed = |error: &io::Error| Err(End::Failed(named(error)));
    loop {
        match socket.read(room) {
            Ok(0) => return Ok(None),
            Ok(_) => return Err(End::Failed("foreign".to_owned())),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return failed(&error),
        }
    }
    // An answer had its header here.
    zeros[..LEN].fill(0);
    loop {
        match socket.write(zeros) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Some(0)),
            Err(error) => return failed(&error),
        }
    }
}

/// What is told of a stream at its end.
fn tell(socket: &TcpStream, head: Head, bytes: u64, ns: u64) -> Stage {
    let info = info::of(socket).unwrap_or_default();
    let total = Total { bytes, ns, retransmitted: info.retransmitted, rtt_ns: info.rtt_ns };
    let mut answer = [0; STREAM_ANSWER];
    answer[..LEN].copy_from_slice(&head.answered().bytes());
    answer[LEN..].copy_from_slice(&total.bytes());
    Stage::Told { answer, written: 0 }
}

/// Read and write what one connection has; how it ends, if it does.
fn step(
    served: &mut Served,
    room: &mut [u8],
    zeros: &mut [u8],
    report: &mut ServeReport,
) -> Option<End> {
    let failed = |error: &io::Error| Some(End::Failed(named(error)));
    loop {
        match &mut served.stage {
            Stage::Request { incoming, answered } => {
                let bytes = match served.socket.read(room) {
                    Ok(0) if incoming.is_empty() => return Some(End::Client),
                    Ok(0) => return Some(End::Failed("closed".to_owned())),
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                    Err(error) => {
                        let between = incoming.is_empty() && *answered;
                        let reset = error.kind() == ErrorKind::ConnectionReset;
                        return if reset && between { Some(End::Reset) } else { failed(&error) };
                    }
                };
                report.received_bytes += bytes as u64;
                match asked(incoming, &room[..bytes]) {
                    Ok(Some(stage)) => served.stage = stage,
                    Ok(None) => (),
                    Err(foreign) => return Some(foreign),
                }
            }
            Stage::Answer { head, written } => {
                let left = (head.answer - *written) as usize;
                // The header, and zeros as many as it takes.
                zeros[..LEN].copy_from_slice(&head.answered().bytes());
                let from = (*written as usize).min(LEN);
                let bytes = left.min(zeros.len() - from);
                let result = served.socket.write(&zeros[from..from + bytes]);
                match result {
                    Ok(bytes) => {
                        *written += u32::try_from(bytes).unwrap_or(u32::MAX);
                        report.sent_bytes += bytes as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                    Err(error) => return failed(&error),
                }
                if *written < head.answer {
                    continue;
                }
                report.answered += 1;
                if head.kind == Kind::Close {
                    return Some(End::Server);
                }
                served.stage = Stage::Request { incoming: Incoming::default(), answered: true };
                // The next request comes later: who asks waits for this answer first.
                return None;
            }
            Stage::Stream { head, bytes, first_ns, last_ns } => {
                match served.socket.read(room) {
                    Ok(0) => {
                        served.stage = tell(&served.socket, *head, *bytes, *last_ns - *first_ns);
                    }
                    Ok(some) => {
                        *last_ns = monotonic_ns();
                        if *bytes == 0 {
                            *first_ns = *last_ns;
                        }
                        *bytes += some as u64;
                        report.received_bytes += some as u64;
                        // Others have their turn.
                        return None;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => (),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                    Err(error) => return failed(&error),
                }
            }
            Stage::Source { head, bytes, first_ns, last_ns } => {
                match pour(&mut served.socket, room, zeros) {
                    Ok(Some(some)) => {
                        *last_ns = monotonic_ns();
                        *bytes += some as u64;
                        report.sent_bytes += some as u64;
                        // Others have their turn.
                        return None;
                    }
                    Ok(None) => {
                        served.stage = tell(&served.socket, *head, *bytes, *last_ns - *first_ns);
                    }
                    Err(end) => return Some(end),
                }
            }
            Stage::Told { answer, written } => match served.socket.write(&answer[*written..]) {
                Ok(bytes) => {
                    *written += bytes;
                    report.sent_bytes += bytes as u64;
                    if *written == answer.len() {
                        report.streams += 1;
                        return Some(End::Client);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => return failed(&error),
            },
        }
    }
}
