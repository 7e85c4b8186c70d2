// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet sockets: frames that leave from a device, or come to it, as they are.
//!
//! Those that leave are given by `sendmmsg`. A ring in memory (`PACKET_TX_RING`) costs more CPU for small frames:
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
pub fn sender(index: u32, queue: bool) -> io::Result<OwnedFd> {
    let socket = closed()?;
    // Only the privileged form passes net.core.wmem_max.
    if setsockopt(&socket, SndBufForce, &BUFFER).is_err() {
        setsockopt(&socket, SndBuf, &BUFFER)?;
    }
    if !queue {
        set(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
    }
    // With a protocol it would receive.
    bind(&socket, index, 0)?;
    Ok(socket)
}

/// A socket that receives nothing yet.
pub(crate) fn closed() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Have a socket receive all frames of a device.
pub(crate) fn bind_all(socket: &OwnedFd, index: u32) -> io::Result<()> {
    bind(socket, index, libc::ETH_P_ALL)
}

/// Have only the first bytes of each frame be kept.
pub(crate) fn keep(socket: &OwnedFd, bytes: u32) -> io::Result<()> {
    // The whole program: return so many.
    let code = u16::try_from(libc::BPF_RET | libc::BPF_K).expect("a small number");
    let mut program = [libc::sock_filter { code, jt: 0, jf: 0, k: bytes }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    // SAFETY: `filter` refers to one instruction, which outlives the call; the kernel copies it.
    unsafe { set_any(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter) }
}

/// Frames that found no room since this was asked last.
pub(crate) fn drops(socket: &OwnedFd) -> io::Result<u32> {
    let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut size = length::<libc::tpacket_stats_v3>();
    // SAFETY: the descriptor is open, and pointer and size describe `counts`, which outlives the
    // call; the kernel writes at most `size` bytes of plain integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(counts.tp_drops) } else { Err(io::Error::last_os_error()) }
}

/// What the options of packet sockets take.
pub(crate) trait Plain {}
impl Plain for i32 {}
impl Plain for libc::tpacket_versions {}
impl Plain for libc::tpacket_req3 {}

/// Set an option of packet sockets.
pub(crate) fn set<T: Plain>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: such a value refers to nothing.
    unsafe { set_any(socket, libc::SOL_PACKET, option, value) }
}

/// Set an option.
///
/// # Safety
/// What the value refers to, if it does, is valid.
unsafe fn set_any<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the descriptor is open, and pointer and size are those of a whole value, which
    // outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length::<T>()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, index: u32, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: of this structure of the kernel's, whose members are numbers, all bytes zero is a
    // value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET.try_into().expect("a small number");
    address.sll_protocol = u16::try_from(protocol).expect("a small number").to_be();
    address.sll_ifindex = index.try_into().expect("numbers of devices are positive ints");
    let size = length::<libc::sockaddr_ll>();
    // SAFETY: the descriptor is open, and the pointer and size are those of a whole address, which
    // outlives the call.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn length<T>() -> libc::socklen_t {
    size_of::<T>().try_into().expect("a small structure")
}

/// Say in one line why a device cannot be used.
#[must_use]
pub fn refused(name: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            format!("--device {name}: frames need CAP_NET_RAW: run it as root, or with it")
        }
        _ => format!("--device {name}: cannot open a packet socket: {error}"),
    }
}
