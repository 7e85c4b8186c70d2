// SPDX-License-Identifier: GPL-2.0-or-later
//! Opening TCP sockets that never block, and waiting for many of them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeSpec;

use super::sources::Sources;
use crate::clock::NS_PER_SEC;

/// Of linux/in.h: a port is chosen when connecting, when the other end is known.
const IP_BIND_ADDRESS_NO_PORT: libc::c_int = 24;
/// Connections that may wait to be accepted; the kernel has its own limit, net.core.somaxconn.
const BACKLOG: i32 = 65_535;
/// Descriptors that a program has beside its connections.
const OTHERS: u64 = 32;
/// Events of one call.
const EVENTS: usize = 256;

/// Begin to connect to `to`, from the next of `from` if there are some.
///
/// # Errors
/// What the kernel said at once: `EADDRNOTAVAIL` if no port is left.
pub fn begin(to: SocketAddr, from: Option<&mut Sources>) -> io::Result<TcpStream> {
    let socket = opened(to)?;
    if let Some(from) = from {
        no_port_yet(&socket)?;
        let address = SocketAddr::from((from.turn(), 0));
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    }
    setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

fn opened(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket(family, SockType::Stream, flags, None)?)
}

/// Without it each connection would take a port from all destinations.
fn no_port_yet(socket: &OwnedFd) -> io::Result<()> {
    let value: libc::c_int = 1;
    // SAFETY: the descriptor is open, and the pointer is to an int of the size given, which
    // outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            IP_BIND_ADDRESS_NO_PORT,
            (&raw const value).cast(),
            4,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Listen on an address and port, also on one that closed connections still have.
///
/// # Errors
/// What the kernel said, e.g. an address in use.
pub fn listening(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = opened(address)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&socket, Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN))?;
    Ok(TcpListener::from(socket))
}

/// Close a connection at once, by a reset: neither end waits for late segments (`TIME_WAIT`).
///
/// # Errors
/// What the kernel said.
pub fn reset(socket: TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&socket, sockopt::Linger, &linger)?;
    drop(socket);
    Ok(())
}

/// Be allowed to have so many connections at once.
///
/// # Errors
/// In one line how many there may be, and how to have more.
pub fn allow(connections: usize) -> Result<(), String> {
    let needed = connections as u64 + OTHERS;
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.map_err(|error| format!("no limit of open files: {error}"))?;
    if soft >= needed {
        return Ok(());
    }
    // Root may have more than the hard limit.
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(|_| {
        format!(
            "{connections} connections at once: this process may have {}; run it as root, or raise \
             `ulimit -Hn {hard}`",
            hard.saturating_sub(OTHERS)
        )
    })
}

/// What an error is called, as its kernel name.
#[must_use]
pub fn named(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{:?}", Errno::from_raw(number)),
        None => error.kind().to_string(),
    }
}

/// Many sockets, of which some can go on.
pub struct Poller {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Poller {
    /// None yet.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, events: vec![EpollEvent::empty(); EVENTS] })
    }

    /// Wait for this one as well; closing it ends that.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn add(&self, socket: impl AsFd, token: usize, flags: EpollFlags) -> io::Result<()> {
        Ok(self.epoll.add(socket, EpollEvent::new(flags, token as u64))?)
    }

    /// Wait for something else of it.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn change(&self, socket: impl AsFd, token: usize, flags: EpollFlags) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut EpollEvent::new(flags, token as u64))?)
    }

    /// Do not wait for it any more.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(socket)?)
    }

    /// Wait so long at most; which can go on, and what they can do.
    ///
    /// # Errors
    /// What the kernel said; a signal is none.
    pub fn wait(&mut self, ns: u64) -> io::Result<Vec<(usize, EpollFlags)>> {
        if ns > 0 {
            let seconds = i64::try_from(ns / NS_PER_SEC).unwrap_or(i64::MAX);
            let rest = i64::try_from(ns % NS_PER_SEC).unwrap_or(0);
            // Its time is in nanoseconds, where epoll's own is in milliseconds.
            let mut all = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut all, Some(TimeSpec::new(seconds, rest)), None) {
                Ok(_) | Err(Errno::EINTR) => (),
                Err(error) => return Err(error.into()),
            }
        }
        let count = match self.epoll.wait(&mut self.events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let token = |event: &EpollEvent| usize::try_from(event.data()).unwrap_or(usize::MAX);
        Ok(self.events[..count].iter().map(|event| (token(event), event.events())).collect())
    }
}
