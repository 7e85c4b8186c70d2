// SPDX-License-Identifier: GPL-2.0-or-later
//! Where datagrams come from: the receiver knows only this of sockets and devices.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::{getsockopt, sockopt};

use crate::af_xdp;
use crate::batch::{Batch, Datagram, KEPT};
use crate::device;
use crate::frame;
use crate::packet_ring::Ring;
use crate::packet_socket::refused;
use crate::report::XdpReport;
use crate::socket::{TICK, drops, open_receiver};
use crate::timing::tai_offset_ns;

/// Memory for frames of a device, bytes; at the highest rates it holds those of 50 ms.
const RING: u32 = 16 << 20;

/// Where datagrams come from.
pub(super) trait Inlet: Send {
    /// Wait for a datagram, a tick at most, and hand over all that are there.
    fn receive(&mut self, each: &mut dyn FnMut(&Datagram)) -> io::Result<()>;

    /// The address and port that they are for.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Memory for those that wait, bytes.
    fn buffer(&self) -> io::Result<u32>;

    /// Those that found no room in it so far.
    fn drops(&mut self) -> io::Result<u32>;

    /// How it is received, if that is by `AF_XDP`.
    fn xdp(&self) -> Option<XdpReport> {
        None
    }
}

/// A UDP socket.
pub(super) struct Udp {
    socket: UdpSocket,
    batch: Batch,
}

impl Udp {
    pub(super) fn open(bind: SocketAddr, buffer: Option<u32>) -> io::Result<Self> {
        Ok(Self { socket: open_receiver(bind, buffer)?, batch: Batch::default() })
    }
}

impl Inlet for Udp {
    fn receive(&mut self, each: &mut dyn FnMut(&Datagram)) -> io::Result<()> {
        self.batch.receive(&self.socket)?.for_each(|datagram| each(&datagram));
        Ok(())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn buffer(&self) -> io::Result<u32> {
        Ok(u32::try_from(getsockopt(&self.socket, sockopt::RcvBuf)?).unwrap_or(u32::MAX))
    }

    fn drops(&mut self) -> io::Result<u32> {
        drops(&self.socket)
    }
}

/// The device, if packets to this address can be found among its frames.
fn device_for(name: &str, bind: SocketAddr) -> Result<device::Device, String> {
    let (found, _) = device::ethernet(name)?;
    if bind.port() == 0 {
        return Err(format!("--bind {bind}: a port must be given, with --device {name}"));
    }
    Ok(found)
}

/// A device, whose frames are seen before the stack has them.
pub(super) struct Frames {
    ring: Ring,
    bind: SocketAddr,
}

impl Frames {
    /// Open a device; the error says in one line what is wrong with it.
    pub(super) fn open(name: &str, bind: SocketAddr, buffer: Option<u32>) -> Result<Self, String> {
        let found = device_for(name, bind)?;
        let bytes = buffer.unwrap_or(RING) as usize;
        let ring = Ring::open(found.index, bytes).map_err(|error| refused(name, &error))?;
        Ok(Self { ring, bind })
    }
}

impl Inlet for Frames {
    fn receive(&mut self, each: &mut dyn FnMut(&Datagram)) -> io::Result<()> {
        let bind = self.bind;
        self.ring.receive(TICK, &mut |frame| {
            let Some(packet) = frame::read(frame.network) else { return };
            if !is_for(bind, packet.to) {
                return;
            }
            each(&Datagram {
                payload: packet.payload.get(..KEPT).unwrap_or(packet.payload),
                bytes: packet.bytes.into(),
                source: Some(packet.from),
                stamp_ns: Some(frame.stamp_ns),
                drops: None,
            });
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.bind)
    }

    fn buffer(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.ring.bytes()).unwrap_or(u32::MAX))
    }

    fn drops(&mut self) -> io::Result<u32> {
        self.ring.drops()
    }
}

/// A device, whose driver gives frames to our memory.
pub(super) struct Xdp {
    receiver: af_xdp::Receiver,
    bind: SocketAddr,
    /// How far the clock of frames is ahead of that of stamps.
    tai_offset_ns: i128,
}

impl Xdp {
    /// Open a device; the error says in one line what is wrong with it.
    pub(super) fn open(name: &str, bind: SocketAddr, buffer: Option<u32>) -> Result<Self, String> {
        let found = device_for(name, bind)?;
        let frame = af_xdp::largest(name, found.mtu)?;
        let bytes = buffer.unwrap_or(RING) as usize;
        let receiver = af_xdp::Receiver::open(found.index, bind, bytes, frame)
            .map_err(|error| af_xdp::refused(name, &error))?;
        Ok(Self { receiver, bind, tai_offset_ns: tai_offset_ns() })
    }
}

impl Inlet for Xdp {
    fn receive(&mut self, each: &mut dyn FnMut(&Datagram)) -> io::Result<()> {
        let (bind, offset) = (self.bind, self.tai_offset_ns);
        self.receiver.receive(TICK, &mut |frame| {
            let Some(packet) = frame::network(frame.bytes).and_then(frame::read) else { return };
            if !is_for(bind, packet.to) {
                return;
            }
            let stamp_ns = frame.tai_ns.and_then(|tai| (i128::from(tai) - offset).try_into().ok());
            each(&Datagram {
                payload: packet.payload.get(..KEPT).unwrap_or(packet.payload),
                bytes: packet.bytes.into(),
                source: Some(packet.from),
                stamp_ns,
                drops: None,
            });
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.bind)
    }

    fn buffer(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.receiver.bytes()).unwrap_or(u32::MAX))
    }

    fn drops(&mut self) -> io::Result<u32> {
        self.receiver.drops()
    }

    fn xdp(&self) -> Option<XdpReport> {
        Some(XdpReport { queues: self.receiver.queues() })
    }
}

/// Whether a packet is for an address and port, or for any address of its family.
fn is_for(bind: SocketAddr, to: SocketAddr) -> bool {
    let any = bind.ip().is_unspecified() && bind.is_ipv4() == to.is_ipv4();
    bind.port() == to.port() && (any || bind.ip() == to.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_for_an_address_or_for_any_of_its_family() {
        for (bind, to, is) in [
            ("0.0.0.0:5000", "198.18.0.2:5000", true),
            ("0.0.0.0:5000", "198.18.0.2:5001", false),
            ("0.0.0.0:5000", "[2001:db8::2]:5000", false),
            ("[::]:5000", "[2001:db8::2]:5000", true),
            ("[::]:5000", "198.18.0.2:5000", false),
            ("198.18.0.2:5000", "198.18.0.2:5000", true),
            ("198.18.0.2:5000", "198.18.0.3:5000", false),
        ] {
            assert_eq!(is_for(bind.parse().unwrap(), to.parse().unwrap()), is, "{bind} {to}");
        }
    }
}
