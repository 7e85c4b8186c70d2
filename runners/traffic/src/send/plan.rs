// SPDX-License-Identifier: GPL-2.0-or-later
//! What to send.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::destinations::Range;
use crate::frame::{self, Mac, TAG};
use crate::generator::Named;
use crate::header::LEN;
use crate::pace::{Rate, Step};
use crate::txtime::Qdisc;

/// What to send.
#[derive(Debug)]
pub struct Plan {
    /// Destination.
    pub to: SocketAddr,
    /// From a device, and around the stack; `None`: by UDP sockets.
    pub device: Option<Device>,
    /// Packets; `None` leaves only the time limit.
    pub count: Option<u64>,
    /// UDP payload of each packet; bytes that are fewer than the header's, or more than
    /// [`most_bytes`], become these.
    pub sizes: Named,
    /// Added to each of `sizes`: less than 0 where these are of frames.
    pub more_bytes: i32,
    /// Packets per second; 0 is as fast as possible.
    pub rate: Rate,
    /// Another rate from a moment on.
    pub step: Option<Step>,
    /// Instead of a rate, times between packets.
    pub intervals: Option<Named>,
    /// What random sizes, intervals and destinations begin with.
    pub seed: u64,
    /// At most so many packets are given to the kernel at once, if so many are due.
    pub batch: usize,
    /// Have the kernel cut each batch of a flow into packets, all of one size (`UDP_SEGMENT`); not
    /// from a device.
    pub segment: bool,
    /// Source ports, used in turn, each for a whole batch, or, from a device, for a packet; at
    /// least 1.
    pub flows: u16,
    /// First source port; 0 lets the kernel choose each, and is no port of a device's frames.
    pub source_port: u16,
    /// Longest time to send.
    pub limit: Duration,
    /// Watch the clock for the last part of each wait instead of sleeping through it.
    pub spin: Duration,
    /// Packets later than this are counted.
    pub late: Duration,
    /// Have a queue discipline keep the times; not from a device, and not of segments.
    pub txtime: Option<Txtime>,
    /// Number of this transmission in each header.
    pub transmission: u16,
}

/// How packets are given to the kernel ahead of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Txtime {
    /// What keeps the times.
    pub by: Qdisc,
    /// So long ahead.
    pub lead: Duration,
}

/// How frames leave from a device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// The Ethernet address that they go to.
    pub mac: Mac,
    /// The one that they come from; `None`: the device's.
    pub source_mac: Option<Mac>,
    /// The IP address that they come from, of the family of the plan's `to`.
    pub from: IpAddr,
    /// Each packet has a destination of its own, of these; `None`: all have that of `to`.
    pub to_range: Option<Range>,
    /// The ID of their VLAN, if they have a tag.
    pub vlan: Option<u16>,
    /// By the queue discipline, and by what is attached to the device's egress; not with `xdp`.
    pub queue: bool,
    /// By `AF_XDP`.
    pub xdp: bool,
}

impl Plan {
    /// The UDP payload of a packet whose size was drawn, and whether it was changed.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between both bounds"
    )]
    pub(super) fn payload(&self, drawn: f64) -> (u16, bool) {
        let whole = (drawn + f64::from(self.more_bytes)).round();
        let kept = whole.clamp(LEN as f64, most_bytes(self.to).into());
        (kept as u16, (kept - whole).abs() > 0.0)
    }

    /// The one payload of all packets, if they have one.
    pub(super) fn one_payload(&self) -> Option<u16> {
        self.sizes.generator.constant().map(|size| self.payload(size).0)
    }

    /// What a frame has beside its UDP payload, with its VLAN tag, bytes.
    pub(super) fn overhead(&self) -> u16 {
        let tagged = self.device.as_ref().is_some_and(|device| device.vlan.is_some());
        frame_overhead(self.to) + if tagged { TAG } else { 0 }
    }
}

/// Bytes around a UDP payload on Ethernet without a VLAN tag: MAC header and checksum, IP header,
/// UDP header.
#[must_use]
pub fn frame_overhead(to: SocketAddr) -> u16 {
    frame::overhead(to.is_ipv4())
}

/// The largest UDP payload that one packet of IP carries.
#[must_use]
pub fn most_bytes(to: SocketAddr) -> u16 {
    frame::most_payload(to.is_ipv4())
}
