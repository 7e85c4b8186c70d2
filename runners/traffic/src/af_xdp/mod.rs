// SPDX-License-Identifier: GPL-2.0-or-later
//! Frames by `AF_XDP`: the driver gives them to our memory, or takes them from there, without an skb
//! where it can.
//!
//! The rings and the memory are those of the crate xdp. Sending needs nothing else. For receiving, a
//! [`program`] in the driver picks the packets that are ours, and writes the time before each of them;
//! it is loaded by [`bpf`], and the kernel takes it away when we end, however we do.

mod bpf;
mod program;
mod receiver;
mod sender;

use std::io;

use xdp::nic::NicIndex;
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Umem, WakableRings};

pub use receiver::{Frame, Receiver};
pub use sender::Sender;

/// What a frame has room for, beside what the kernel keeps before it.
const SMALL_BYTES: u32 = 2048 - KERNELS_BYTES;
const LARGE_BYTES: u32 = 4096 - KERNELS_BYTES;
/// `XDP_PACKET_HEADROOM`.
const KERNELS_BYTES: u32 = 256;
/// Between the kernel's part and a frame: the time that the program writes.
const HEAD_BYTES: u32 = 8;
/// Of `if_xdp.h`.
const XDP_OPTIONS: libc::c_int = 8;
const SOL_XDP: libc::c_int = 283;
const ZERO_COPY: u32 = 1;

/// Whether frames of so many bytes fit, with their Ethernet header.
#[must_use]
pub fn fits(frame: u32) -> bool {
    frame + HEAD_BYTES <= LARGE_BYTES
}

/// A socket of one queue, its rings and its memory.
struct Queue {
    socket: XdpSocket,
    rings: WakableRings,
    umem: Umem,
}

impl Queue {
    /// Open it with so many frames, a power of two, each of so many bytes at most.
    fn open(index: u32, queue: u32, frames: u32, bytes: u32, sends: bool) -> io::Result<Self> {
        let frame_size =
            if bytes + HEAD_BYTES <= SMALL_BYTES { FrameSize::TwoK } else { FrameSize::FourK };
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
        let (rings, flags) =
            builder.build_wakable_rings(&umem, rings).map_err(|error| of(&error))?;
        let socket =
            builder.bind(NicIndex::new(index), queue, flags).map_err(|error| of(&error))?;
        Ok(Self { socket, rings, umem })
    }

    /// Whether the driver works on our memory itself.
    fn zero_copy(&self) -> bool {
        let mut options = 0_u32;
        let mut size: libc::socklen_t = 4;
        // SAFETY: the descriptor is open, and pointer and size are those of `options`, which outlives
        // the call.
        let result = unsafe {
            libc::getsockopt(
                self.socket.raw_fd(),
                SOL_XDP,
                XDP_OPTIONS,
                (&raw mut options).cast(),
                &raw mut size,
            )
        };
        result == 0 && options & ZERO_COPY != 0
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
