// SPDX-License-Identifier: GPL-2.0-or-later
//! Receiving by `AF_XDP`, from all queues of a device.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xdp::Packet;
use xdp::slab::{HeapSlab, Slab};

use super::{HEAD_BYTES, Queue, bpf, of, program};

/// More queues are not looked at; no socket makes a packet of them go to the stack.
const MOST_QUEUES: u32 = 64;
/// Frames of a queue: the least that a burst needs, and the most that a ring is given.
const LEAST_FRAMES: u32 = 64;
const MOST_FRAMES: u32 = 1 << 16;
/// Taken at once.
const BATCH: usize = 64;

/// A frame that came.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// All of it, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// When the program saw it, `CLOCK_TAI`; none if the driver has no room for that.
    pub tai_ns: Option<u64>,
}

/// Sockets of all queues, and the program that feeds them.
pub struct Receiver {
    /// Before what it refers to: the program ends first.
    _link: OwnedFd,
    queues: Vec<Queue>,
    packets: HeapSlab,
    bytes: usize,
}

// SAFETY: memory and rings belong to the process, whichever thread has them, and only one has.
unsafe impl Send for Receiver {}

impl Receiver {
    /// Receive packets for an address and port from a device, with about so many bytes of memory, in
    /// frames of at most `frame` bytes.
    ///
    /// # Errors
    /// What the kernel said: `EPERM` without the capabilities, `EBUSY` if another program is there.
    pub fn open(index: u32, bind: SocketAddr, bytes: usize, frame: u32) -> io::Result<Self> {
        let map = bpf::sockets(MOST_QUEUES)?;
        // Each has at least one; how many there are, binding shows.
        let mut queues = Vec::new();
        let each = u32::try_from(bytes / 2048).unwrap_or(u32::MAX);
        let frames = each.clamp(LEAST_FRAMES, MOST_FRAMES);
        let frames = 1 << frames.ilog2();
        for queue in 0..MOST_QUEUES {
            match Queue::open(index, queue, frames, frame, false) {
                Ok(opened) => {
                    bpf::put(&map, queue, opened.socket.raw_fd())?;
                    queues.push(opened);
                }
                Err(error) if queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
                Err(error) => return Err(error),
            }
        }
        for queue in &mut queues {
            fill(queue, frames as usize)?;
        }
        let map_number = std::os::fd::AsRawFd::as_raw_fd(&map);
        let loaded = bpf::load(&program::program(bind, map_number))?;
        let link = bpf::attach(&loaded, index)?;
        // The program holds the map.
        let bytes = queues.len() * frames as usize * 2048;
        Ok(Self { _link: link, queues, packets: HeapSlab::with_capacity(BATCH), bytes })
    }

    /// Bytes of memory for frames.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many queues the device has.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Whether the driver works on our memory itself, for all queues.
    #[must_use]
    pub fn zero_copy(&self) -> bool {
        self.queues.iter().all(Queue::zero_copy)
    }

    /// Frames that found no room so far.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn drops(&self) -> io::Result<u32> {
        let mut all = 0;
        for queue in &self.queues {
            let counted = queue.socket.statistics().map_err(|error| of(&error))?;
            all += counted.rx_dropped + counted.rx_ring_full;
        }
        Ok(u32::try_from(all).unwrap_or(u32::MAX))
    }

    /// Wait for frames, and take those that are there.
    ///
    /// A device that is down, or was taken away, has none.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn receive(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<()> {
        if self.take(each)? == 0 {
            self.wait(wait)?;
            self.take(each)?;
        }
        Ok(())
    }

    fn take(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let mut taken = 0;
        for queue in &mut self.queues {
            let Some(rx) = &mut queue.rings.rx_ring else { continue };
            // SAFETY: no packet outlives the memory: each goes back to it below.
            let came = unsafe { rx.recv(&queue.umem, &mut self.packets) };
            while let Some(mut packet) = self.packets.pop_back() {
                if let Some(frame) = whole(&mut packet) {
                    each(&frame);
                }
                queue.umem.free_packet(packet);
            }
            if came > 0 {
                fill(queue, came)?;
            }
            taken += came;
        }
        Ok(taken)
    }

    fn wait(&self, wait: Duration) -> io::Result<()> {
        let mut sockets = self
            .queues
            .iter()
            .map(|queue| {
                // SAFETY: the queue keeps it open for as long as `self` is borrowed.
                let socket = unsafe { BorrowedFd::borrow_raw(queue.socket.raw_fd()) };
                PollFd::new(socket, PollFlags::POLLIN)
            })
            .collect::<Vec<_>>();
        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        match poll(&mut sockets, wait) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Give frames to the driver.
fn fill(queue: &mut Queue, frames: usize) -> io::Result<()> {
    // SAFETY: the memory outlives the socket: it is dropped after it.
    let filled = unsafe { queue.rings.fill_ring.enqueue(&mut queue.umem, frames, true) };
    match filled {
        Ok(_) => Ok(()),
        // It is told again with the next frames.
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN) => Ok(()),
            _ => Err(error),
        },
    }
}

/// A packet, with the time before it.
fn whole(packet: &mut Packet) -> Option<Frame<'_>> {
    let head = i32::try_from(HEAD_BYTES).expect("a small number");
    packet.adjust_head(-head).ok()?;
    let mut stamp = [0; HEAD_BYTES as usize];
    packet.array_at_offset(0, &mut stamp).ok()?;
    let written = u64::from_ne_bytes(stamp);
    // The driver may leave there what it likes the next time this memory is used.
    packet.get_mut(..HEAD_BYTES as usize)?.fill(0);
    packet.adjust_head(head).ok()?;
    Some(Frame { bytes: &packet[..], tai_ns: (written > 0).then_some(written) })
}
