// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet sockets: frames that leave from a device as they are.
//!
//! They are given by `sendmmsg`. A ring in memory (`PACKET_TX_RING`) costs more CPU for small frames:
//! a veth and a tap copy them again, into pages. `AF_XDP` costs less, but keeps the frames that a
//! stopped queue refuses, and sends them later.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::SndBuf, sockopt::SndBufForce,
};

/// Frames that a device keeps until they have left are charged to the socket: room for more than
/// the rings of network cards hold, bytes.
const BUFFER: usize = 16 << 20;

/// A socket that sends frames from a device, and receives nothing.
///
/// Frames pass by the queue discipline, and by what is attached to the device's egress, unless
/// `queue` is set.
///
/// # Errors
/// What the kernel said: `EPERM` without `CAP_NET_RAW`.
pub fn open(index: u32, queue: bool) -> io::Result<OwnedFd> {
    // With a protocol it would receive.
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    // Only the privileged form passes net.core.wmem_max.
    if setsockopt(&socket, SndBufForce, &BUFFER).is_err() {
        setsockopt(&socket, SndBuf, &BUFFER)?;
    }
    if !queue {
        bypass(&socket)?;
    }
    bind(&socket, index)?;
    Ok(socket)
}

fn bypass(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open, and the pointer is to an int of the size given, which
    // outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const on).cast(),
            4,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: of this structure of the kernel's, whose members are numbers, all bytes zero is a
    // value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET.try_into().expect("a small number");
    address.sll_ifindex = index.try_into().expect("numbers of devices are positive ints");
    let size = size_of::<libc::sockaddr_ll>().try_into().expect("a small structure");
    // SAFETY: the descriptor is open, and the pointer and size are those of a whole address, which
    // outlives the call.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
