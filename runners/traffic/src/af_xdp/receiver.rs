// SPDX-License-Identifier: GPL-2.0-or-later
//! Receiving by `AF_XDP`, from all queues of a device.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xdp::Packet;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};

use super::{HEAD_BYTES, Queue, bpf, chunk, of, program};

/// A device with more queues is refused.
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
    /// Those that wait for earlier ones of other queues.
    held: Vec<Held>,
    bytes: usize,
}

/// A packet that came, and is not handed over yet.
struct Held {
    /// Its time, or that of the one before it in its queue.
    at: u64,
    stamp: Option<u64>,
    queue: usize,
    packet: Packet,
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
        let (_, chunk) = chunk(frame);
        // Binding shows how many there are; this is for the memory of each. Of queues that both receive
        // and send, the usual ones, there is one for each CPU, if no one set another number.
        let expected = match NicIndex::new(index).queue_counts().map(|counts| counts.rx_count()) {
            Ok(0) => thread::available_parallelism().map_or(1, NonZero::get),
            Ok(count) => count as usize,
            Err(_) => 1,
        };
        let each = u32::try_from(bytes / chunk as usize / expected).unwrap_or(u32::MAX);
        let frames = 1 << each.clamp(LEAST_FRAMES, MOST_FRAMES).ilog2();
        let mut queues = Vec::new();
        for number in 0..=MOST_QUEUES {
            match Queue::open(index, number, frames, frame, false) {
                Ok(_) if number == MOST_QUEUES => {
                    return Err(io::Error::other(format!(
                        "it has more than {MOST_QUEUES} receive queues: `ethtool -L` sets how many"
                    )));
                }
                Ok(mut queue) => {
                    bpf::put(&map, number, queue.socket.raw_fd())?;
                    fill(&mut queue, frames as usize)?;
                    queues.push(queue);
                }
                Err(error) if number > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
                Err(error) => return Err(error),
            }
        }
        let loaded = bpf::load(&program::program(bind, map.as_raw_fd()))?;
        let link = bpf::attach(&loaded, index)?;
        // The program holds the map.
        Ok(Self {
            _link: link,
            bytes: queues.len() * frames as usize * chunk as usize,
            queues,
            packets: HeapSlab::with_capacity(BATCH),
            held: Vec::new(),
        })
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

    /// Hand over what is there, in the order of its times; how many came.
    fn take(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let mut came_in_all = 0;
        // What comes later is behind it, as each queue keeps its order.
        let mut until = u64::MAX;
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let Some(rx) = &mut queue.rings.rx_ring else { continue };
            // SAFETY: no packet outlives the memory: each goes back to it in `hand_over`.
            let came = unsafe { rx.recv(&queue.umem, &mut self.packets) };
            let mut last = 0;
            while let Some(mut packet) = self.packets.pop_back() {
                // One without a time is where it came.
                let stamp = taken_off(&mut packet);
                last = stamp.unwrap_or(last);
                self.held.push(Held { at: last, stamp, queue: number, packet });
            }
            if came == BATCH {
                until = until.min(last);
            }
            came_in_all += came;
        }
        self.hand_over(until, each)?;
        Ok(came_in_all)
    }

    /// Hand over packets that came until a time.
    fn hand_over(&mut self, until: u64, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<()> {
        if self.queues.len() > 1 {
            self.held.sort_by_key(|held| held.at);
        }
        let count = match self.queues.len() {
            1 => self.held.len(),
            _ => self.held.partition_point(|held| held.at <= until),
        };
        for held in self.held.drain(..count) {
            each(&Frame { bytes: &held.packet[..], tai_ns: held.stamp });
            self.queues[held.queue].umem.free_packet(held.packet);
        }
        if count > 0 {
            for queue in &mut self.queues {
                let free = queue.umem.allocatable();
                fill(queue, free)?;
            }
        }
        Ok(())
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
        // It is told again with the next frames. A device that was taken away has none.
        Err(error) => match error.raw_os_error() {
            Some(
                libc::EAGAIN
                | libc::EBUSY
                | libc::ENOBUFS
                | libc::ENETDOWN
                | libc::ENXIO
                | libc::ENODEV,
            ) => Ok(()),
            _ => Err(error),
        },
    }
}

/// Take the time before a packet from there; none if the driver has no room for it.
fn taken_off(packet: &mut Packet) -> Option<u64> {
    let head = i32::try_from(HEAD_BYTES).expect("a small number");
    packet.adjust_head(-head).ok()?;
    let mut stamp = [0; HEAD_BYTES as usize];
    let read = packet.array_at_offset(0, &mut stamp);
    // What this memory is used for next has no time of this packet.
    if let Some(head) = packet.get_mut(..HEAD_BYTES as usize) {
        head.fill(0);
    }
    packet.adjust_head(head).ok()?;
    read.ok()?;
    let written = u64::from_ne_bytes(stamp);
    (written > 0).then_some(written)
}
