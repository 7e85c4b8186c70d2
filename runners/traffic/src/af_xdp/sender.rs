// SPDX-License-Identifier: GPL-2.0-or-later
//! Sending by `AF_XDP`, from the first queue of a device.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use xdp::slab::{HeapSlab, Slab};

use super::Queue;
use crate::frame::TAG;

/// Frames on their way.
const FRAMES: u32 = 2048;
/// So long at once it waits for a driver that has no time.
const WAIT: Duration = Duration::from_micros(50);

/// A socket that frames leave by.
pub struct Sender {
    queue: Queue,
    waiting: HeapSlab,
    /// The largest frame that fits into memory, and that the device carries, bytes.
    largest: usize,
    /// Given to the kernel, and not yet seen to have left.
    on_their_way: usize,
    /// The device was down: what is in the ring leaves late, and nothing is added until it is up.
    down: bool,
}

// SAFETY: memory and rings belong to the process, whichever thread has them, and only one has.
unsafe impl Send for Sender {}

/// What came of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The kernel has the first so many.
    pub frames: usize,
    /// Of these, and of those of before that it still had, the device dropped so many.
    pub dropped: usize,
    /// What the kernel said of the next one; none if it has all.
    pub error: Option<Errno>,
}

impl Sender {
    /// Send from a device, frames of at most `frame` bytes.
    ///
    /// # Errors
    /// What the kernel said: `EPERM` without the capability.
    pub fn open(index: u32, frame: u32) -> io::Result<Self> {
        let queue = Queue::open(index, 0, FRAMES, frame, true)?;
        Ok(Self {
            queue,
            waiting: HeapSlab::with_capacity(FRAMES as usize),
            largest: frame as usize,
            on_their_way: 0,
            down: false,
        })
    }

    /// What tells whether a frame is larger than the device carries.
    pub fn too_large(&self) -> impl Fn(&[u8]) -> bool + use<> {
        let largest = self.largest;
        // A tag is no part of what it carries.
        let tag = |frame: &[u8]| if frame.get(12..14) == Some(&[0x81, 0]) { 0 } else { TAG.into() };
        move |frame| frame.len() > largest - tag(frame)
    }

    /// Give frames to the driver, none of which is too large; it waits while the ring is full until
    /// `over` says so.
    pub fn send(&mut self, frames: &[Vec<u8>], over: &dyn Fn() -> bool) -> Sent {
        let mut sent = Sent::default();
        if self.down {
            match self.wake() {
                Err(error) if is_down(error) => return Sent { error: Some(error), ..sent },
                Err(Errno::EBUSY) => sent.dropped += 1,
                _ => (),
            }
            self.down = false;
        }
        loop {
            let left = self.collect();
            let put = self.put(&frames[sent.frames..]);
            sent.frames += put;
            let woken = self.wake();
            match woken {
                Ok(()) if sent.frames == frames.len() => return sent,
                // It ends with the first frame that the device drops.
                Err(Errno::EBUSY) => {
                    sent.dropped += 1;
                    continue;
                }
                Ok(()) => (),
                Err(error) if passing(error) => (),
                Err(error) => {
                    self.down = is_down(error);
                    return Sent { error: Some(error), ..sent };
                }
            }
            if put == 0 && left == 0 {
                if over() {
                    return Sent { error: Some(woken.err().unwrap_or(Errno::ENOBUFS)), ..sent };
                }
                // To poll would have the kernel send, and say nothing of what it drops.
                thread::sleep(WAIT);
            }
        }
    }

    /// Wait for frames that have not left, so long at most; how many have not, or were dropped.
    pub fn finish(&mut self, wait: Duration) -> usize {
        let begun = Instant::now();
        let mut dropped = 0;
        loop {
            self.collect();
            if self.on_their_way == 0 || begun.elapsed() >= wait {
                return self.on_their_way + dropped;
            }
            match self.wake() {
                Err(Errno::EBUSY) => dropped += 1,
                Err(error) if !passing(error) => return self.on_their_way + dropped,
                _ => thread::sleep(WAIT),
            }
        }
    }

    /// Take memory back from frames that have left; how many these are.
    fn collect(&mut self) -> usize {
        let Queue { rings, umem, .. } = &mut self.queue;
        let left = rings.completion_ring.dequeue(umem, FRAMES as usize);
        self.on_their_way -= left;
        left
    }

    /// Put as many of them into the ring as there is room for.
    fn put(&mut self, frames: &[Vec<u8>]) -> usize {
        let Queue { rings, umem, .. } = &mut self.queue;
        let Some(tx) = &mut rings.tx_ring else { return 0 };
        for frame in frames {
            // SAFETY: no packet outlives the memory: each goes to the ring, or back below.
            let Some(mut packet) = (unsafe { umem.alloc() }) else { break };
            if packet.append(frame).is_err() {
                umem.free_packet(packet);
                break;
            }
            self.waiting.push_front(packet);
        }
        // SAFETY: the memory outlives the socket: it is dropped after it. It is woken by `wake`.
        let put = unsafe { tx.send(&mut self.waiting, false) }.unwrap_or(0);
        while let Some(packet) = self.waiting.pop_back() {
            umem.free_packet(packet);
        }
        self.on_their_way += put;
        put
    }

    /// Tell the kernel to look at the ring. Without a driver that sends by itself, the call sends.
    fn wake(&self) -> Result<(), Errno> {
        let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
        // SAFETY: the descriptor is open, and nothing is referred to.
        let result =
            unsafe { libc::sendto(self.queue.socket.raw_fd(), none, 0, flags, none.cast(), 0) };
        if result < 0 { Err(Errno::last()) } else { Ok(()) }
    }
}

/// Whether an error says only that the kernel is to be asked again.
fn passing(error: Errno) -> bool {
    matches!(error, Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS)
}

/// Whether an error says that the device sends nothing now.
fn is_down(error: Errno) -> bool {
    matches!(error, Errno::ENETDOWN | Errno::ENXIO)
}
