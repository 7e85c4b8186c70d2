// SPDX-License-Identifier: GPL-2.0-or-later
//! Ethernet frames from a device: packets pass by the stack.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use rand::SeedableRng;

use super::outlet::{Account, Outlet, Packet, State};
use super::plan::{self, Plan};
use crate::af_xdp::{self, Sender};
use crate::clock::realtime_ns;
use crate::destinations::Range;
use crate::device::{self, Counters};
use crate::frame::{self, Builder, ETHERNET, Ends};
use crate::generator::Random;
use crate::header::{Clock, Header, LEN};
use crate::many::Many;
use crate::packet_socket;
use crate::report::{DeviceReport, TxtimeReport};

/// A driver that counts packets when they have left is waited for so often, for so long.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(1);
/// So long the last frames may take to leave.
const LONGEST: Duration = Duration::from_secs(1);

/// A device that frames leave from.
pub struct Frames {
    name: String,
    index: u32,
    before: Counters,
    way: Way,
    builder: Builder,
    to: IpAddr,
    to_range: Option<Range>,
    random: Random,
    transmission: u16,
    source_port: u16,
    flows: u64,
    /// Packets of this batch.
    waiting: Vec<Packet>,
    /// Frames, as many as there were in the largest batch.
    built: Vec<Vec<u8>>,
}

/// What frames leave by.
enum Way {
    Packet(OwnedFd, Many),
    Xdp(Box<Sender>),
}

impl Frames {
    /// Open a device for a plan.
    ///
    /// # Errors
    /// In one line what is wrong with the device, or with what it was asked for.
    pub fn open(plan: &Plan, asked: &plan::Device) -> Result<Self, String> {
        let name = &asked.name;
        let (found, own_mac) = device::ethernet(name)?;
        if !found.carrier {
            return Err(format!("--device {name} has no carrier: what is at its other end?"));
        }
        let headers = frame::headers(plan.to.is_ipv4());
        if let Some(payload) = plan.one_payload() {
            let packet = u32::from(payload) + u32::from(headers);
            if packet > found.mtu {
                return Err(format!(
                    "--device {name} carries IP packets of at most {} bytes (its MTU), frames of \
                     {}; these packets have {packet}",
                    found.mtu,
                    found.mtu + u32::from(ETHERNET) + u32::from(frame::FRAME_CHECK)
                ));
            }
        }
        let way = if asked.xdp {
            let frame = af_xdp::largest(name, found.mtu)?;
            let sender = Sender::open(found.index, frame);
            Way::Xdp(Box::new(sender.map_err(|error| af_xdp::refused(name, &error))?))
        } else {
            let socket = packet_socket::sender(found.index, asked.queue)
                .map_err(|error| packet_socket::refused(name, &error))?;
            Way::Packet(socket, Many::default())
        };
        let ends = Ends {
            source_mac: asked.source_mac.unwrap_or(own_mac),
            mac: asked.mac,
            vlan: asked.vlan,
            from: asked.from,
            to: plan.to,
        };
        Ok(Self {
            name: name.clone(),
            index: found.index,
            before: found.counters,
            way,
            builder: Builder::new(&ends),
            to: plan.to.ip(),
            to_range: asked.to_range,
            // Drawn apart from sizes and intervals.
            random: Random::seed_from_u64(plan.seed ^ (1 << 62)),
            transmission: plan.transmission,
            source_port: plan.source_port,
            flows: plan.flows.into(),
            waiting: Vec::new(),
            built: Vec::new(),
        })
    }

    /// Build the frames of all packets that wait; how many these are.
    fn build(&mut self) -> usize {
        let count = self.waiting.len();
        self.built.resize_with(self.built.len().max(count), Vec::new);
        let stamp = realtime_ns();
        for (packet, frame) in self.waiting.drain(..).zip(&mut self.built) {
            let mut header = [0; LEN];
            Header {
                transmission: self.transmission,
                sequence: packet.number,
                pktgen: false,
                clock: Clock::Realtime,
                stamp,
            }
            .write(&mut header);
            let flow = u16::try_from(packet.number % self.flows).expect("below a u16");
            let to = match &self.to_range {
                None => self.to,
                Some(range) => range.draw(&mut self.random),
            };
            let source_port = self.source_port + flow;
            self.builder
                .build(frame, &frame::Packet { source_port, to, payload: packet.payload, header });
        }
        count
    }
}

impl Outlet for Frames {
    fn add(&mut self, packet: Packet) {
        self.waiting.push(packet);
    }

    /// What the device refuses is not tried again: the next packet has its own time.
    fn send(&mut self, account: &mut Account, over: &dyn Fn() -> bool) -> State {
        let count = self.build();
        let frames = &self.built[..count];
        match &mut self.way {
            Way::Packet(socket, many) => by_packets(socket, many, frames, account),
            Way::Xdp(sender) => by_xdp(sender, frames, account, over),
        }
    }

    fn times(&mut self, account: &mut Account) -> Option<TxtimeReport> {
        if let Way::Xdp(sender) = &mut self.way {
            let stuck = sender.finish(LONGEST) as u64;
            account.sent = account.sent.saturating_sub(stuck);
            account.refused(stuck, Errno::ETIMEDOUT);
        }
        None
    }

    fn device(&self, account: &Account) -> Option<DeviceReport> {
        let mut after = None;
        for look in 0..LOOKS {
            if look > 0 {
                thread::sleep(LOOK);
            }
            after = device::numbered(self.index).ok().map(|device| device.counters);
            let Some(after) = after else { break };
            let sent = after.tx_packets.saturating_sub(self.before.tx_packets);
            let dropped = after.tx_dropped.saturating_sub(self.before.tx_dropped);
            if sent + dropped >= account.sent {
                break;
            }
        }
        Some(DeviceReport {
            name: self.name.clone(),
            tx_packets: after.map(|now| now.tx_packets.saturating_sub(self.before.tx_packets)),
            tx_dropped: after.map(|now| now.tx_dropped.saturating_sub(self.before.tx_dropped)),
        })
    }
}

fn by_packets(
    socket: &OwnedFd,
    many: &mut Many,
    frames: &[Vec<u8>],
    account: &mut Account,
) -> State {
    let mut at = 0;
    while at < frames.len() {
        match many.send(socket, &frames[at..], &[], MsgFlags::MSG_DONTWAIT) {
            Ok(sent) => {
                account.sent += sent as u64;
                at += sent;
                // A call ends with the first frame that is refused.
                if at < frames.len() {
                    account.refused_unnamed();
                    at += 1;
                }
            }
            // Of a device that was taken away the number is no more; one that is down may come up
            // again.
            Err(why @ (Errno::ENXIO | Errno::ENODEV)) => {
                account.refused((frames.len() - at) as u64, why);
                return State::Gone;
            }
            Err(why) => {
                account.refused(1, why);
                at += 1;
            }
        }
    }
    State::Open
}

fn by_xdp(
    sender: &mut Sender,
    frames: &[Vec<u8>],
    account: &mut Account,
    over: &dyn Fn() -> bool,
) -> State {
    // As a packet socket does, one that is too large is refused, and those around it are not.
    let too_large = sender.too_large();
    for part in frames.chunk_by(|one, next| !too_large(one) && !too_large(next)) {
        if too_large(&part[0]) {
            account.refused(1, Errno::EMSGSIZE);
            continue;
        }
        let sent = sender.send(part, over);
        account.sent += sent.frames as u64;
        // Some of these may have been counted as sent before.
        account.sent = account.sent.saturating_sub(sent.dropped as u64);
        account.refused(sent.dropped as u64, Errno::EBUSY);
        let Some(why) = sent.error else { continue };
        account.refused((part.len() - sent.frames) as u64, why);
        if matches!(why, Errno::ENXIO | Errno::ENODEV) {
            return State::Gone;
        }
    }
    State::Open
}
