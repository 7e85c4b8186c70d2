// SPDX-License-Identifier: GPL-2.0-or-later
//! Many packets by one call (`sendmmsg`).

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

/// A control message with the time when a packet is to leave.
#[derive(Clone, Copy)]
#[repr(C)]
struct Timed {
    head: libc::cmsghdr,
    /// Where `CMSG_DATA` is.
    time_ns: [u8; 8],
}

impl Timed {
    fn new(time_ns: u64) -> Self {
        // SAFETY: plain integers, for which zeros are valid; some C libraries have padding in it
        // that cannot be named.
        let mut head: libc::cmsghdr = unsafe { std::mem::zeroed() };
        head.cmsg_len = size_of::<Self>() as _;
        head.cmsg_level = libc::SOL_SOCKET;
        head.cmsg_type = libc::SCM_TXTIME;
        Self { head, time_ns: time_ns.to_ne_bytes() }
    }
}

/// What a call for many packets needs, kept from one to the next.
#[derive(Default)]
pub struct Many {
    parts: Vec<libc::iovec>,
    controls: Vec<Timed>,
    messages: Vec<libc::mmsghdr>,
}

impl Many {
    /// Give packets to the kernel, in order; how many it took, at least one.
    ///
    /// Of fewer than all, the next one was refused, and the kernel does not say why. `times_ns` are
    /// when they are to leave, by the clock that the socket was told of; there are none, or one for
    /// each packet.
    ///
    /// # Errors
    /// What the kernel said of the first one.
    ///
    /// # Panics
    /// If there are more than a `u32` counts.
    pub fn send(
        &mut self,
        socket: &impl AsFd,
        packets: &[Vec<u8>],
        times_ns: &[u64],
        flags: MsgFlags,
    ) -> Result<usize, Errno> {
        let socket = socket.as_fd().as_raw_fd();
        if let ([one], []) = (packets, times_ns) {
            return send(socket, one, flags).map(|_| 1);
        }
        self.controls.clear();
        self.controls.extend(times_ns.iter().copied().map(Timed::new));
        self.parts.clear();
        self.parts.extend(packets.iter().map(|packet| libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        }));
        self.messages.clear();
        self.messages.extend(self.parts.iter_mut().map(|part| {
            // SAFETY: of this structure of the kernel's, whose members are numbers and pointers,
            // all bytes zero is a value: no address, no control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        }));
        for (message, control) in self.messages.iter_mut().zip(&mut self.controls) {
            message.msg_hdr.msg_control = (&raw mut *control).cast();
            message.msg_hdr.msg_controllen = size_of::<Timed>() as _;
        }
        let count = u32::try_from(self.messages.len()).expect("a batch");
        // SAFETY: the descriptor is open, and the pointer is to `count` messages; these, their
        // parts, their control messages and the payloads, which the kernel only reads, outlive the
        // call, and none of them is used after it.
        let sent =
            unsafe { libc::sendmmsg(socket, self.messages.as_mut_ptr(), count, flags.bits()) };
        usize::try_from(sent).map_err(|_| Errno::last())
    }
}
