// SPDX-License-Identifier: GPL-2.0-or-later
//! The echo: each packet goes back to where it came from, from the address that it came to.
//!
//! Many packets by one `recvmmsg`, and back by one `sendmmsg`, with all of their payload; a
//! [probe](crate::clock_probe) of our clock gets its times. Only packets
//! with a header that is known are sent back, and none that comes from the port of the echo itself:
//! two of them would send such a packet to each other for ever.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use crate::batch::{MOST, nanoseconds};
use crate::clock::{NS_PER_SEC, monotonic_ns, realtime_ns};
use crate::clock_probe::{self, Answer, Kept};
use crate::errors::Errors;
use crate::header::Header;
use crate::report::{EchoReport, RefusedReport, SCHEMA, Stopped};
use crate::socket::{drops, open_receiver};

/// More than the payload of any packet.
const ROOM: usize = 1 << 16;
/// Control messages with the address that a packet came to, 28 or 36 bytes, and its time, 32.
const CONTROL: usize = 96;
/// As large as the address of an IPv6 socket.
const ADDRESS: libc::socklen_t = 28;

/// What to send back.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Address and port to bind.
    pub bind: SocketAddr,
    /// Longest time; `None` is until it is told to stop.
    pub limit: Option<Duration>,
    /// Receive buffer, bytes.
    pub rcvbuf: Option<u32>,
}

/// As control messages are aligned.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// As the fields of an address are aligned.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Address([u8; ADDRESS as usize]);

/// A packet that came.
#[derive(Clone, Copy, Default)]
struct Came {
    bytes: usize,
    address: usize,
    control: usize,
    stamp_ns: Option<u64>,
}

/// Packets of one call, with their addresses.
struct Packets {
    payloads: Vec<u8>,
    controls: Vec<Control>,
    addresses: Vec<Address>,
    came: Vec<Came>,
}

impl Packets {
    fn new() -> Self {
        Self {
            payloads: vec![0; MOST * ROOM],
            controls: vec![Control([0; CONTROL]); MOST],
            addresses: vec![Address([0; ADDRESS as usize]); MOST],
            came: Vec::with_capacity(MOST),
        }
    }

    fn payload(&self, at: usize) -> &[u8] {
        &self.payloads[at * ROOM..at * ROOM + self.came[at].bytes]
    }

    /// The port that a packet came from; it has the same place in both families.
    fn port(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.addresses[at].0[2], self.addresses[at].0[3]])
    }

    /// Wait for a packet as long as the socket does, and take what else is there.
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.came.clear();
        let whole =
            Came { bytes: ROOM, address: ADDRESS as usize, control: CONTROL, stamp_ns: None };
        let mut parts = self.parts((0..MOST).map(|at| (at, whole)));
        let mut headers = self.headers(&mut parts, (0..MOST).map(|at| (at, whole)));
        let count = libc::c_uint::try_from(MOST).expect("a batch");
        // SAFETY: the descriptor is open; there are `count` headers, and each has the pointers and
        // sizes of buffers of its own in `self` and `parts`, which outlive the call and which nothing
        // else uses meanwhile.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        self.came.extend(headers.iter_mut().take(got).map(|header| {
            let (control, stamp_ns) = controls_of(&mut header.msg_hdr);
            Came {
                bytes: (header.msg_len as usize).min(ROOM),
                address: header.msg_hdr.msg_namelen as usize,
                control,
                stamp_ns,
            }
        }));
        Ok(())
    }

    /// Write our times into those that ask for them.
    fn answer(&mut self, which: &[usize]) {
        for &at in which {
            if !clock_probe::asks(self.payload(at)) {
                continue;
            }
            let came = self.came[at];
            let kept = Kept::now();
            let sent_ns = realtime_ns();
            let times = Answer {
                received_ns: came.stamp_ns.unwrap_or(sent_ns),
                sent_ns,
                by_kernel: came.stamp_ns.is_some(),
                kept,
            };
            clock_probe::answer(&mut self.payloads[at * ROOM..at * ROOM + came.bytes], &times);
        }
    }

    /// Send some back, in their order; how many the kernel took, at least one.
    fn send(&mut self, socket: &UdpSocket, which: &[usize]) -> io::Result<usize> {
        let each = || which.iter().map(|&at| (at, self.came[at]));
        let each = each().collect::<Vec<_>>();
        let mut parts = self.parts(each.iter().copied());
        let mut headers = self.headers(&mut parts, each.iter().copied());
        let count = libc::c_uint::try_from(headers.len()).expect("a batch");
        // SAFETY: the descriptor is open; there are `count` headers, whose buffers in `self` and
        // `parts` the kernel only reads; they outlive the call.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn parts(&mut self, each: impl Iterator<Item = (usize, Came)>) -> Vec<libc::iovec> {
        let payloads = self.payloads.as_mut_ptr();
        each.map(|(at, came)| libc::iovec {
            iov_base: payloads.wrapping_add(at * ROOM).cast(),
            iov_len: came.bytes,
        })
        .collect()
    }

    fn headers(
        &mut self,
        parts: &mut [libc::iovec],
        each: impl Iterator<Item = (usize, Came)>,
    ) -> Vec<libc::mmsghdr> {
        let addresses = self.addresses.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        each.zip(parts)
            .map(|((at, came), part)| {
                // SAFETY: of this structure of the kernel's, whose members are numbers and pointers,
                // all bytes zero is a value.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_name = addresses.wrapping_add(at).cast();
                header.msg_hdr.msg_namelen =
                    libc::socklen_t::try_from(came.address).unwrap_or(ADDRESS);
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = controls.wrapping_add(at).cast();
                header.msg_hdr.msg_controllen = came.control as _;
                header
            })
            .collect()
    }
}

/// Leave of the control messages only the address that a packet came to, and not the interface: a route
/// may lead back over another one. Says how long that is, and when the packet came by another message.
fn controls_of(header: &mut libc::msghdr) -> (usize, Option<u64>) {
    let mut stamp_ns = None;
    let mut address = None;
    // SAFETY: the kernel has filled in `header`, and its control buffer is still there.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: not null, so it is a whole message in the buffer, which is aligned for it.
        let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        // SAFETY: as before; the data follows the header.
        let data = unsafe { libc::CMSG_DATA(message) };
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: a message of this kind has such a structure.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                stamp_ns = nanoseconds(time);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: a message of this kind has such a structure, and the buffer is ours alone.
                unsafe {
                    let mut info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    info.ipi_ifindex = 0;
                    data.cast::<libc::in_pktinfo>().write_unaligned(info);
                }
                address = Some((message, size_of::<libc::in_pktinfo>()));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: as before.
                let mut info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                // An address of one link says nothing without it.
                if !std::net::Ipv6Addr::from(info.ipi6_addr.s6_addr).is_unicast_link_local() {
                    info.ipi6_ifindex = 0;
                    // SAFETY: as before.
                    unsafe { data.cast::<libc::in6_pktinfo>().write_unaligned(info) };
                }
                address = Some((message, size_of::<libc::in6_pktinfo>()));
            }
            _ => (),
        }
        // SAFETY: `message` is one of this header's.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    let Some((message, bytes)) = address else { return (0, stamp_ns) };
    let bytes = libc::c_uint::try_from(bytes).expect("a small structure");
    // SAFETY: it only computes.
    let whole = unsafe { libc::CMSG_SPACE(bytes) } as usize;
    // SAFETY: the message with its padding is inside the buffer, as the kernel wrote it, or its padding
    // is what the buffer has room for beyond; the beginning of the buffer may overlap it.
    unsafe { ptr::copy(message.cast::<u8>(), header.msg_control.cast::<u8>(), whole) };
    (whole, stamp_ns)
}

/// A bound echo.
pub struct Echo<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    socket: UdpSocket,
    port: u16,
    received: u64,
    echoed: u64,
    bytes: u64,
    refused: RefusedReport,
    errors: Errors,
    span_ns: Option<(u64, u64)>,
}

impl<'a> Echo<'a> {
    /// Bind the socket; from here on packets queue up.
    ///
    /// # Errors
    /// What the kernel said, e.g. an address in use.
    pub fn bind(plan: &'a Plan, stop: &'a AtomicBool) -> io::Result<Self> {
        let socket = open_receiver(plan.bind, plan.rcvbuf)?;
        // Of control messages there is room for a time and an address.
        setsockopt(&socket, sockopt::RxqOvfl, &0)?;
        match plan.bind {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
        socket.set_write_timeout(Some(crate::socket::TICK))?;
        let port = socket.local_addr()?.port();
        Ok(Self {
            plan,
            stop,
            socket,
            port,
            received: 0,
            echoed: 0,
            bytes: 0,
            refused: RefusedReport::default(),
            errors: Errors::default(),
            span_ns: None,
        })
    }

    /// The address bound, with the port the kernel chose if 0 was asked for.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Send back what comes until time is up, or told to stop.
    ///
    /// # Errors
    /// A failing socket. Packets that the kernel refuses are no error but part of the report.
    pub fn run(mut self) -> io::Result<EchoReport> {
        let limit = self.plan.limit.map(|limit| u64::try_from(limit.as_nanos()));
        let deadline_ns = limit
            .map_or(u64::MAX, |limit| monotonic_ns().saturating_add(limit.unwrap_or(u64::MAX)));
        let mut packets = Packets::new();
        let mut back = Vec::with_capacity(MOST);
        let stopped_by = loop {
            if self.stop.load(Ordering::Relaxed) {
                break Stopped::Signal;
            }
            if monotonic_ns() >= deadline_ns {
                break Stopped::Seconds;
            }
            match packets.receive(&self.socket) {
                Ok(()) => (),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => continue,
                    _ => return Err(error),
                },
            }
            back.clear();
            back.extend((0..packets.came.len()).filter(|&at| self.takes(&packets, at)));
            self.send_back(&mut packets, &back);
        };
        self.report(stopped_by)
    }

    /// Whether a packet goes back.
    fn takes(&mut self, packets: &Packets, at: usize) -> bool {
        let now_ns = monotonic_ns();
        self.received += 1;
        self.span_ns = Some((self.span_ns.map_or(now_ns, |(first, _)| first), now_ns));
        if Header::read(packets.payload(at)).is_err() {
            self.refused.foreign += 1;
        } else if packets.port(at) == self.port {
            self.refused.own_port += 1;
        } else {
            return true;
        }
        false
    }

    fn send_back(&mut self, packets: &mut Packets, which: &[usize]) {
        let mut at = 0;
        while at < which.len() {
            packets.answer(&which[at..]);
            match packets.send(&self.socket, &which[at..]) {
                Ok(sent) => {
                    self.echoed += sent as u64;
                    let sent = &which[at..at + sent];
                    self.bytes +=
                        sent.iter().map(|&one| packets.came[one].bytes as u64).sum::<u64>();
                    at += sent.len();
                }
                Err(error) => {
                    let number = error.raw_os_error().unwrap_or(0);
                    let blocked = matches!(number, libc::EAGAIN | libc::EINTR);
                    if !blocked || self.stop.load(Ordering::Relaxed) {
                        self.errors.add(Errno::from_raw(number), 1);
                        self.refused.by_kernel += 1;
                        at += 1;
                    }
                }
            }
        }
    }

    fn report(self, stopped_by: Stopped) -> io::Result<EchoReport> {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((0, 0));
        let seconds = (last_ns - first_ns) as f64 / NS_PER_SEC as f64;
        Ok(EchoReport {
            schema: SCHEMA,
            role: "echo",
            bind: self.local_addr()?.to_string(),
            received: self.received,
            echoed: self.echoed,
            bytes: self.bytes,
            refused: self.refused,
            errors: self.errors.named(),
            drops: drops(&self.socket)?,
            seconds,
            rate: (self.received > 1 && seconds > 0.0)
                .then(|| (self.received - 1) as f64 / seconds),
            stopped_by,
        })
    }
}
