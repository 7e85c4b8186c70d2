// SPDX-License-Identifier: GPL-2.0-or-later
//! Opening UDP sockets, and the socket options that nix does not wrap.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};

/// How long a blocked call waits before it looks at limits and signals again.
pub const TICK: Duration = Duration::from_millis(50);

/// A sending socket connected to `to`, from `port` (0: any).
///
/// # Errors
/// What the kernel said, e.g. a port in use.
pub fn open_sender(to: SocketAddr, port: u16) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], port)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], port)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_write_timeout(Some(TICK))?;
    // Without RECVERR the kernel hides ENOBUFS from UDP senders.
    match to {
        SocketAddr::V4(_) => {
            setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
            never_fragment(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)?;
        }
        SocketAddr::V6(_) => {
            setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
            never_fragment(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)?;
        }
    }
    Ok(socket)
}

/// Refuse a packet above the MTU (EMSGSIZE): two fragments would pass most layers as two packets.
fn never_fragment(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    // IPV6_PMTUDISC_DO has the same value.
    let value: libc::c_int = libc::IP_PMTUDISC_DO;
    // SAFETY: the descriptor is open, and the pointer is to an int of the size given, which
    // outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A receiving socket bound to `address`, with `rcvbuf` bytes of buffer if given.
///
/// # Errors
/// What the kernel said, e.g. an address in use.
pub fn open_receiver(address: SocketAddr, rcvbuf: Option<u32>) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(TICK))?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    if let Some(bytes) = rcvbuf {
        let bytes = bytes as usize;
        // Only the privileged form passes net.core.rmem_max; what came of it is reported.
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
        }
    }
    Ok(socket)
}

/// Packets that the kernel cuts one piece of data into at most (`UDP_MAX_SEGMENTS`, older kernels'
/// too), and the bytes that it may have.
const MOST_SEGMENTS: usize = 64;
const MOST_SEGMENTED: usize = 65_507;

/// Have the kernel cut what is sent into packets of `bytes` of payload (`UDP_SEGMENT`).
///
/// # Errors
/// What the kernel said; Linux has it since 4.18.
pub fn segment(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    // SAFETY: the descriptor is open, and the pointer is to an int of the size given, which
    // outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast(),
            4,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Give packets of one size to the kernel as one piece, which it cuts; how many it took.
///
/// # Errors
/// What the kernel said of all of these.
pub fn send_segmented(socket: &UdpSocket, packets: &[Vec<u8>]) -> Result<usize, Errno> {
    let bytes = packets.first().map_or(1, Vec::len);
    let count = packets.len().min(MOST_SEGMENTS).min((MOST_SEGMENTED / bytes).max(1));
    let all = packets[..count].concat();
    send(socket.as_raw_fd(), &all, MsgFlags::empty()).map(|_| count)
}

/// Packets the kernel dropped at this socket so far.
///
/// # Errors
/// What the kernel said.
pub fn drops(socket: &UdpSocket) -> io::Result<u32> {
    // SK_MEMINFO_DROPS of linux/sock_diag.h is the last of nine 32-bit values.
    let mut info = [0_u32; 9];
    let mut size: libc::socklen_t = 9 * 4;
    // SAFETY: the descriptor is open, and the pointer and size describe `info`, which outlives
    // the call; the kernel writes at most `size` bytes of plain integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info[8])
}

/// The kernel's words, and how to mend the usual cases.
#[must_use]
pub fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken: choose another".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no interface here has this address".to_owned(),
        _ => error.to_string(),
    }
}
