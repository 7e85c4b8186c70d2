// SPDX-License-Identifier: GPL-2.0-or-later
//! Frames that a device receives, in memory that the kernel shares with us (`TPACKET_V3`).
//!
//! The kernel fills blocks with frames, and hands a block over when it is full, or after
//! [`RETIRE_MS`]. Of each frame it copies the first [`KEPT`] bytes.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use crate::clock::NS_PER_SEC;
use crate::packet_socket;

/// Bytes that are kept of a frame: its headers, and more of its payload than a header of ours has.
pub const KEPT: u32 = 160;
/// The kernel hands over a block with a frame in it after so many milliseconds at most.
const RETIRE_MS: libc::c_uint = 10;
/// Bytes of a block, and what the kernel calls its frames: none of a block is smaller.
const BLOCK: usize = 256 << 10;
const FRAME: usize = 2048;
/// Blocks that there are at least, and at most.
const LEAST_BLOCKS: usize = 4;
const MOST_BLOCKS: usize = 8192;

/// Where `tpacket_block_desc` of the kernel's `if_packet.h` has its fields.
const STATUS: usize = 8;
const PACKETS: usize = 12;
const FIRST: usize = 16;
/// And `tpacket3_hdr`.
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const SNAPPED: usize = 12;
const LINK: usize = 24;
const NETWORK: usize = 26;
/// Of a block: it is ours.
const OURS: u32 = libc::TP_STATUS_USER;
const KERNELS: u32 = libc::TP_STATUS_KERNEL;

/// A frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it entered the network stack, nanoseconds of `CLOCK_REALTIME`.
    pub stamp_ns: u64,
    /// What was kept of it, from its IP header on; a VLAN tag is not in it.
    pub network: &'a [u8],
}

/// A device's frames.
pub struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    blocks: usize,
    /// The block that is filled next.
    next: usize,
    /// Frames that found no room; the kernel forgets them when it is asked.
    drops: u32,
}

// SAFETY: the mapping belongs to the process, whichever thread has the ring, and only one has.
unsafe impl Send for Ring {}

impl Ring {
    /// Receive from a device, with about so many bytes of memory.
    ///
    /// # Errors
    /// What the kernel said: `EPERM` without `CAP_NET_RAW`.
    pub fn open(index: u32, bytes: usize) -> io::Result<Self> {
        let blocks = (bytes / BLOCK).clamp(LEAST_BLOCKS, MOST_BLOCKS);
        let socket = packet_socket::closed()?;
        packet_socket::set(&socket, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V3)?;
        packet_socket::keep(&socket, KEPT)?;
        let number = |value| libc::c_uint::try_from(value).map_err(io::Error::other);
        let request = libc::tpacket_req3 {
            tp_block_size: number(BLOCK)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(FRAME)?,
            tp_frame_nr: number(BLOCK / FRAME * blocks)?,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        packet_socket::set(&socket, libc::PACKET_RX_RING, &request)?;
        // What this machine sends is none of it.
        packet_socket::set(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        // Otherwise a frame has the time when it was copied.
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        let size = NonZeroUsize::new(blocks * BLOCK).ok_or(Errno::EINVAL)?;
        let (rights, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
        // SAFETY: a new mapping, at an address that the kernel chooses, of memory that it shares.
        let memory = unsafe { mmap(None, size, rights, flags, &socket, 0) }?.cast();
        let ring = Self { socket, memory, blocks, next: 0, drops: 0 };
        packet_socket::bind_all(&ring.socket, index)?;
        Ok(ring)
    }

    /// Bytes of its memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks * BLOCK
    }

    /// Frames that found no room so far.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn drops(&mut self) -> io::Result<u32> {
        self.drops = self.drops.saturating_add(packet_socket::drops(&self.socket)?);
        Ok(self.drops)
    }

    /// Wait for frames, and take those that are there, of each block at most once.
    ///
    /// A device that is down, or was taken away, has none.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn receive(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<()> {
        if self.status().load(Ordering::Acquire) & OURS == 0 {
            self.wait(wait)?;
        }
        for _ in 0..self.blocks {
            if self.status().load(Ordering::Acquire) & OURS == 0 {
                break;
            }
            frames(self.block(), each);
            self.status().store(KERNELS, Ordering::Release);
            self.next = (self.next + 1) % self.blocks;
        }
        Ok(())
    }

    fn wait(&self, wait: Duration) -> io::Result<()> {
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        match poll(&mut socket, wait) {
            Ok(_) | Err(Errno::EINTR) => (),
            Err(error) => return Err(error.into()),
        }
        if socket[0].revents().is_some_and(|what| what.contains(PollFlags::POLLERR)) {
            // Told once, or poll would not wait again.
            getsockopt(&self.socket, sockopt::SocketError)?;
        }
        Ok(())
    }

    /// Whose the next block is.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the block lies in the mapping, which is as old as `self`; its status is aligned,
        // and nobody but the kernel writes it, as a whole.
        unsafe { AtomicU32::from_ptr(self.memory.add(self.next * BLOCK + STATUS).as_ptr().cast()) }
    }

    /// The next block, which must be ours.
    fn block(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping; while it is ours the kernel leaves it alone.
        unsafe { std::slice::from_raw_parts(self.memory.add(self.next * BLOCK).as_ptr(), BLOCK) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.memory.cast(), self.bytes()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Hand over each frame of a block.
fn frames(block: &[u8], each: &mut dyn FnMut(&Frame<'_>)) {
    let word = |at: usize| block.get(at..).and_then(<[u8]>::first_chunk).copied();
    let field = |at: usize| word(at).map(u32::from_ne_bytes);
    let short = |at: usize| {
        let two = block.get(at..).and_then(<[u8]>::first_chunk).copied();
        two.map(|two| usize::from(u16::from_ne_bytes(two)))
    };
    let wide = |at: usize| field(at).and_then(|value| usize::try_from(value).ok());
    let (Some(count), Some(mut at)) = (field(PACKETS), wide(FIRST)) else { return };
    for _ in 0..count {
        let frame = || {
            let (link, network) = (short(at + LINK)?, short(at + NETWORK)?);
            let end = at.checked_add(link)?.checked_add(wide(at + SNAPPED)?)?;
            let stamp_ns = u64::from(field(at + SECONDS)?) * NS_PER_SEC;
            let stamp_ns = stamp_ns + u64::from(field(at + NANOSECONDS)?);
            Some(Frame { stamp_ns, network: block.get(at + network..end)? })
        };
        let Some(frame) = frame() else { return };
        each(&frame);
        match wide(at + NEXT).and_then(|next| at.checked_add(next)) {
            Some(next) if next > at && next < block.len() => at = next,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(block: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        frames(block, &mut |frame| all.push((frame.stamp_ns, frame.network.to_vec())));
        all
    }

    /// A block as the kernel fills it: each frame has an Ethernet header before what is given.
    fn filled(packets: &[&[u8]]) -> Vec<u8> {
        let mut block = vec![0; 48];
        block[PACKETS..PACKETS + 4]
            .copy_from_slice(&u32::try_from(packets.len()).unwrap().to_ne_bytes());
        block[FIRST..FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
        for (number, packet) in packets.iter().enumerate() {
            let size = (82 + 14 + packet.len()).next_multiple_of(8);
            let mut frame = vec![0; size];
            let mut put = |at: usize, value: usize| {
                frame[at..at + 4].copy_from_slice(&u32::try_from(value).unwrap().to_ne_bytes());
            };
            put(NEXT, size);
            put(SECONDS, 2);
            put(NANOSECONDS, number);
            put(SNAPPED, 14 + packet.len());
            frame[LINK..LINK + 2].copy_from_slice(&82_u16.to_ne_bytes());
            frame[NETWORK..NETWORK + 2].copy_from_slice(&96_u16.to_ne_bytes());
            frame[96..96 + packet.len()].copy_from_slice(packet);
            block.extend(frame);
        }
        block
    }

    #[test]
    fn each_frame_of_a_block_is_handed_over() {
        let block = filled(&[b"first", b"", b"third"]);
        let expected = [(2_000_000_000, b"first".to_vec()), (2_000_000_001, Vec::new())];
        assert_eq!(taken(&block)[..2], expected);
        assert_eq!(taken(&block)[2], (2_000_000_002, b"third".to_vec()));
        assert!(taken(&filled(&[])).is_empty());
    }

    proptest! {
        #[test]
        fn any_block_is_safe(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..5),
            wrong in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..20)
        ) {
            let packets = packets.iter().map(Vec::as_slice).collect::<Vec<_>>();
            let mut block = filled(&packets);
            for (at, byte) in wrong {
                let at = at.index(block.len());
                block[at] = byte;
            }
            // No frame twice: there are no more of them than fit.
            prop_assert!(taken(&block).len() <= block.len());
        }
    }
}
