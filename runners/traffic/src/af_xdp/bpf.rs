// SPDX-License-Identifier: GPL-2.0-or-later
//! Calls of bpf(2): a map of sockets, a program, and its link with a device.
//!
//! The kernel takes all of them away once their descriptors are closed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::program::Insn;

/// Of `bpf.h`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const XSKMAP: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const LOG_BYTES: usize = 1 << 16;

/// A map that has room for the sockets of so many queues.
pub(super) fn sockets(queues: u32) -> io::Result<OwnedFd> {
    // map_type, key_size, value_size, max_entries.
    let mut attributes = Attributes::default();
    for word in [XSKMAP, 4, 4, queues] {
        attributes.word(word);
    }
    attributes.call(MAP_CREATE)
}

/// Give a queue its socket.
pub(super) fn put(map: &OwnedFd, queue: u32, socket: RawFd) -> io::Result<()> {
    let socket = u32::try_from(socket).map_err(io::Error::other)?;
    let mut attributes = Attributes::default();
    attributes.word(descriptor(map)?);
    attributes.word(0);
    attributes.address(&raw const queue);
    attributes.address(&raw const socket);
    attributes.double(0);
    // Of this command the result is no descriptor.
    attributes.plain(MAP_UPDATE).map(|_| ())
}

/// Load a program of XDP; the error has the last line of what the verifier says.
pub(super) fn load(program: &[Insn]) -> io::Result<OwnedFd> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut attributes = Attributes::default();
    attributes.word(PROG_XDP);
    attributes.word(u32::try_from(program.len()).map_err(io::Error::other)?);
    attributes.address(program.as_ptr());
    attributes.address(c"GPL".as_ptr());
    attributes.word(1);
    attributes.word(u32::try_from(LOG_BYTES).map_err(io::Error::other)?);
    attributes.address(log.as_mut_ptr());
    attributes.call(PROG_LOAD).map_err(|error| {
        let text = String::from_utf8_lossy(&log);
        let said = text.trim_end_matches('\0').lines().rev().find(|line| !line.trim().is_empty());
        match (error.raw_os_error(), said) {
            (Some(libc::EPERM), _) | (_, None) => error,
            (_, Some(line)) => io::Error::other(format!("{error}: {line}")),
        }
    })
}

/// Attach a program to a device, for as long as the link is open.
pub(super) fn attach(program: &OwnedFd, device: u32) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::default();
    attributes.word(descriptor(program)?);
    attributes.word(device);
    attributes.word(ATTACH_XDP);
    // In the driver if it can, and otherwise where the stack begins.
    attributes.word(0);
    attributes.call(LINK_CREATE)
}

fn descriptor(of: &OwnedFd) -> io::Result<u32> {
    u32::try_from(of.as_raw_fd()).map_err(io::Error::other)
}

/// `union bpf_attr`, member by member; what is not given is zero.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn word(&mut self, value: u32) {
        self.0.extend(value.to_ne_bytes());
    }

    fn double(&mut self, value: u64) {
        self.0.extend(value.to_ne_bytes());
    }

    /// An address, of what outlives the call.
    fn address<T>(&mut self, of: *const T) {
        self.double(of.expose_provenance() as u64);
    }

    fn call(&self, command: libc::c_long) -> io::Result<OwnedFd> {
        let result = self.plain(command)?;
        // SAFETY: the kernel has just opened it for us, and nobody else knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }

    fn plain(&self, command: libc::c_long) -> io::Result<RawFd> {
        // SAFETY: pointer and size are those of a part of the union that outlives the call; what the
        // addresses in it refer to has the size that the command takes, and outlives it, too.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), self.0.len()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        RawFd::try_from(result).map_err(io::Error::other)
    }
}
