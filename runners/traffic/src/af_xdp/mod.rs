// SPDX-License-Identifier: GPL-2.0-or-later
//! Frames by `AF_XDP`: many of them by one call, from memory and into memory that the kernel shares.
//!
//! The kernel copies each frame. Drivers of some cards can do without; for that they want a program to
//! send as well, and reset their queues, which nobody has tried here.
//!
//! The rings and the memory are those of the crate xdp. Sending needs nothing else. For receiving, a
//! [`program`] in the driver picks the packets that are ours, and writes the time before each of them;
//! it is loaded by [`bpf`], and the kernel takes it away when we end, however we do.

mod bpf;
mod program;
mod receiver;
mod sender;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use xdp::nic::NicIndex;
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Umem, WakableRings};

use crate::frame;

pub use receiver::{Frame, Receiver};
pub use sender::Sender;

/// What a frame has room for, beside what the kernel keeps before it.
const SMALL_BYTES: u32 = 2048 - KERNELS_BYTES;
const LARGE_BYTES: u32 = 4096 - KERNELS_BYTES;
/// `XDP_PACKET_HEADROOM`.
const KERNELS_BYTES: u32 = 256;
/// Between the kernel's part and a frame: the time that the program writes.
const HEAD_BYTES: u32 = 8;
/// The largest frame of a device of this MTU, with a VLAN tag and without its checksum, bytes.
///
/// # Errors
/// In one line that it does not fit.
pub fn largest(name: &str, mtu: u32) -> Result<u32, String> {
    let frame = mtu + u32::from(frame::ETHERNET) + u32::from(frame::TAG);
    if frame + HEAD_BYTES > LARGE_BYTES {
        return Err(format!(
            "--device {name} --xdp: frames of its MTU, {mtu}, do not fit: `ip link set {name} mtu \
             3500`, or leave out --xdp"
        ));
    }
    Ok(frame)
}

/// What memory for a frame of so many bytes has, with what is kept before it.
fn chunk(frame: u32) -> (FrameSize, u32) {
    if frame + HEAD_BYTES <= SMALL_BYTES {
        (FrameSize::TwoK, SMALL_BYTES + KERNELS_BYTES)
    } else {
        (FrameSize::FourK, LARGE_BYTES + KERNELS_BYTES)
    }
}

/// So long a queue may be busy with a socket that was closed before.
const LETS_GO: Duration = Duration::from_secs(1);

/// A socket of one queue, its rings and its memory.
struct Queue {
    socket: XdpSocket,
    rings: WakableRings,
    umem: Umem,
}

impl Queue {
    /// Open it with so many frames, a power of two, each of so many bytes at most.
    ///
    /// The kernel takes a while to let go of a socket that was closed.
    fn open(index: u32, queue: u32, frames: u32, bytes: u32, sends: bool) -> io::Result<Self> {
        let begun = Instant::now();
        loop {
            match Self::open_once(index, queue, frames, bytes, sends) {
                Err(error)
                    if error.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < LETS_GO =>
                {
                    thread::sleep(LETS_GO / 50);
                }
                found => return found,
            }
        }
    }

    fn open_once(index: u32, queue: u32, frames: u32, bytes: u32, sends: bool) -> io::Result<Self> {
        let (frame_size, _) = chunk(bytes);
        let config = UmemCfgBuilder {
            frame_size,
            head_room: HEAD_BYTES,
            frame_count: frames,
            ..Default::default()
        };
        let umem = Umem::map(config.build().map_err(io::Error::other)?)?;
        let rings = RingConfigBuilder {
            rx_count: if sends { 0 } else { frames },
            tx_count: if sends { frames } else { 0 },
            fill_count: frames,
            completion_count: frames,
        };
        let rings = rings.build().map_err(io::Error::other)?;
        let mut builder = XdpSocketBuilder::new().map_err(|error| of(&error))?;
        let (rings, mut flags) =
            builder.build_wakable_rings(&umem, rings).map_err(|error| of(&error))?;
        flags.force_copy();
        let socket =
            builder.bind(NicIndex::new(index), queue, flags).map_err(|error| of(&error))?;
        Ok(Self { socket, rings, umem })
    }
}

/// What the kernel said.
fn of(error: &SocketError) -> io::Error {
    let (SocketError::SocketCreation(inner)
    | SocketError::Bind(inner)
    | SocketError::SetSockOpt { inner, .. }
    | SocketError::GetSockOpt { inner, .. }
    | SocketError::RingMap { inner, .. }) = error;
    inner
        .raw_os_error()
        .map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

/// Say in one line why `AF_XDP` cannot be used on a device.
#[must_use]
pub fn refused(name: &str, error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "it needs CAP_NET_RAW, and for receiving CAP_NET_ADMIN and CAP_BPF: run it as root"
        }
        Some(libc::EAFNOSUPPORT) => "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)",
        Some(libc::EBUSY) => "another XDP program, or another socket, has the device",
        Some(libc::EOPNOTSUPP) => "its driver has no XDP",
        _ => return format!("--device {name} --xdp: {error}"),
    };
    format!("--device {name} --xdp: {why}")
}
