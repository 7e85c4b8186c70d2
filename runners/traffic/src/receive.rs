// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiver: one `recvmsg` per packet, each packet accounted for.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, getsockopt, recvmsg, sockopt,
};

use crate::clock::{NS_PER_SEC, monotonic_ns};
use crate::header::{Foreign, Header};
use crate::report::{ForeignReport, ReceiveReport, SCHEMA, SocketReport, Stopped};
use crate::sequence::Tracker;
use crate::socket::{TICK, drops, open_receiver};

/// Largest UDP payload there can be.
const MAX_PAYLOAD: usize = 65_535;

/// What to receive.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Address and port to bind.
    pub bind: SocketAddr,
    /// Packets expected; receiving ends when all are there.
    pub expect: Option<u64>,
    /// Transmission to count; `None` takes that of the first packet.
    pub transmission: Option<u16>,
    /// Stop when nothing came for so long after the first packet.
    pub idle: Duration,
    /// Wait for duplicates so long after the last expected packet.
    pub linger: Duration,
    /// Longest time to receive, from the start.
    pub limit: Duration,
    /// Receive buffer, bytes.
    pub rcvbuf: Option<u32>,
}

/// A bound receiver.
pub struct Receiver<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    socket: UdpSocket,
    tracker: Tracker,
    transmission: Option<u16>,
    /// Numbers of the sources, in the order in which they came.
    flows: HashMap<SocketAddr, u16>,
    foreign: ForeignReport,
    received: u64,
    counted: u64,
    bytes: u64,
    drops_seen: u32,
    first_ns: Option<u64>,
    last_ns: u64,
    /// How long nothing has come, in looks of a tick at most.
    quiet_ns: u64,
}

impl<'a> Receiver<'a> {
    /// Bind the socket; from here on packets queue up.
    ///
    /// # Errors
    /// What the kernel said, e.g. an address in use.
    pub fn bind(plan: &'a Plan, stop: &'a AtomicBool) -> io::Result<Self> {
        Ok(Self {
            plan,
            stop,
            socket: open_receiver(plan.bind, plan.rcvbuf)?,
            tracker: Tracker::new(plan.expect),
            transmission: plan.transmission,
            flows: HashMap::new(),
            foreign: ForeignReport::default(),
            received: 0,
            counted: 0,
            bytes: 0,
            drops_seen: 0,
            first_ns: None,
            last_ns: 0,
            quiet_ns: 0,
        })
    }

    /// The address bound, with the port the kernel chose if 0 was asked for.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receive until all is there, nothing more comes, time is up, or told to stop.
    ///
    /// # Errors
    /// A failing socket. Lost or foreign packets are no error but part of the report.
    pub fn run(mut self) -> io::Result<ReceiveReport> {
        let deadline_ns = monotonic_ns().saturating_add(nanoseconds(self.plan.limit));
        let mut buffer = vec![0; MAX_PAYLOAD];
        let mut control = nix::cmsg_space!(u32);
        let mut looked_ns = monotonic_ns();
        let stopped_by = loop {
            let got = self.receive_one(&mut buffer, &mut control)?;
            let now_ns = monotonic_ns();
            // A machine that stands still sends nothing either: that is one look, however long.
            self.quiet_ns += (now_ns - looked_ns).min(nanoseconds(TICK));
            looked_ns = now_ns;
            if let Some((len, from)) = got {
                self.account(&buffer[..len], from, now_ns);
            }
            if let Some(reason) = self.must_stop(now_ns, deadline_ns) {
                break reason;
            }
        };
        self.report(stopped_by)
    }

    /// One datagram's length and source, or `None` if none came within a tick.
    fn receive_one(
        &mut self,
        buffer: &mut [u8],
        control: &mut [u8],
    ) -> io::Result<Option<(usize, Option<SocketAddr>)>> {
        let mut parts = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        match recvmsg::<SockaddrStorage>(fd, &mut parts, Some(control), MsgFlags::empty()) {
            Ok(message) => {
                for part in message.cmsgs()? {
                    if let ControlMessageOwned::RxqOvfl(count) = part {
                        self.drops_seen = count;
                    }
                }
                Ok(Some((message.bytes, message.address.as_ref().and_then(source))))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn account(&mut self, payload: &[u8], from: Option<SocketAddr>, now_ns: u64) {
        self.received += 1;
        let header = match Header::read(payload) {
            Ok(header)
                if header.transmission == *self.transmission.get_or_insert(header.transmission) =>
            {
                header
            }
            other => {
                self.foreign.total += 1;
                *match other {
                    Ok(_) => &mut self.foreign.other_transmission,
                    Err(Foreign::Short) => &mut self.foreign.short,
                    Err(Foreign::Magic) => &mut self.foreign.magic,
                    Err(Foreign::Version) => &mut self.foreign.version,
                } += 1;
                return;
            }
        };
        let flow = from.map_or(0, |from| self.flow_of(from));
        self.tracker.observe(header.place(self.tracker.highest()), flow);
        self.counted += 1;
        self.bytes += payload.len() as u64;
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        self.quiet_ns = 0;
    }

    /// The number of a source; those beyond the last number share it.
    fn flow_of(&mut self, from: SocketAddr) -> u16 {
        let next = u16::try_from(self.flows.len()).unwrap_or(u16::MAX);
        *self.flows.entry(from).or_insert(next)
    }

    fn must_stop(&self, now_ns: u64, deadline_ns: u64) -> Option<Stopped> {
        if self.stop.load(Ordering::Relaxed) {
            Some(Stopped::Signal)
        } else if self.tracker.complete() && self.quiet_ns >= nanoseconds(self.plan.linger) {
            Some(Stopped::Count)
        } else if self.first_ns.is_some() && self.quiet_ns >= nanoseconds(self.plan.idle) {
            Some(Stopped::Idle)
        } else if now_ns >= deadline_ns {
            Some(Stopped::Seconds)
        } else {
            None
        }
    }

    fn report(self, stopped_by: Stopped) -> io::Result<ReceiveReport> {
        let counts = self.tracker.counts();
        let seconds =
            (self.last_ns - self.first_ns.unwrap_or(self.last_ns)) as f64 / NS_PER_SEC as f64;
        let rcvbuf = getsockopt(&self.socket, sockopt::RcvBuf)?;
        Ok(ReceiveReport {
            schema: SCHEMA,
            role: "receive",
            bind: self.local_addr()?.to_string(),
            transmission: self.transmission,
            expected: self.plan.expect,
            received: self.received,
            bytes: self.bytes,
            distinct: counts.distinct,
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            reordered_in_flow: counts.reordered_in_flow,
            lost: self.tracker.lost(),
            too_old: counts.too_old,
            beyond: counts.beyond,
            foreign: self.foreign,
            flows: self.tracker.flows(),
            socket: SocketReport {
                rcvbuf_asked: self.plan.rcvbuf,
                rcvbuf: u32::try_from(rcvbuf).unwrap_or(u32::MAX),
                drops: drops(&self.socket)?,
                drops_seen: self.drops_seen,
            },
            seconds,
            rate: (self.counted > 1 && seconds > 0.0).then(|| (self.counted - 1) as f64 / seconds),
            stopped_by,
        })
    }
}

fn source(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
