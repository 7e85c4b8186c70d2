// SPDX-License-Identifier: GPL-2.0-or-later
//! UDP sockets, one for each flow: packets pass through the stack.

use std::io;
use std::net::UdpSocket;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use super::outlet::{Account, Outlet, Packet, State};
use super::plan::Plan;
use crate::clock::realtime_ns;
use crate::header::{Clock, Header};
use crate::many::Many;
use crate::socket::{open_sender, segment, send_segmented};

/// UDP sockets, one for each flow.
pub struct Udp {
    sockets: Vec<UdpSocket>,
    transmission: u16,
    batch: u64,
    segment: bool,
    /// Packets of this batch in their order, and the flow of each.
    waiting: Vec<Vec<u8>>,
    flows: Vec<usize>,
    /// Payloads that are not used now.
    spare: Vec<Vec<u8>>,
    many: Many,
}

impl Udp {
    /// Open the sockets of a plan.
    ///
    /// # Errors
    /// What the kernel said.
    ///
    /// # Panics
    /// If packets are to be segmented, and have not one size.
    pub fn open(plan: &Plan) -> io::Result<Self> {
        let sockets = (0..plan.flows)
            .map(|flow| {
                let port = if plan.source_port == 0 { 0 } else { plan.source_port + flow };
                open_sender(plan.to, port)
            })
            .collect::<io::Result<Vec<_>>>()?;
        if plan.segment {
            let bytes = plan.one_payload().expect("one size");
            for socket in &sockets {
                segment(socket, bytes)?;
            }
        }
        Ok(Self {
            sockets,
            transmission: plan.transmission,
            batch: plan.batch as u64,
            segment: plan.segment,
            waiting: Vec::new(),
            flows: Vec::new(),
            spare: Vec::new(),
            many: Many::default(),
        })
    }

    fn send_flow(
        &mut self,
        flow: usize,
        packets: &mut [Vec<u8>],
        account: &mut Account,
        over: &dyn Fn() -> bool,
    ) {
        for packet in &mut *packets {
            Header::stamp(packet.first_chunk_mut().expect("a header"), realtime_ns());
        }
        let mut at = 0;
        let mut refused_before = false;
        while at < packets.len() {
            let socket = &self.sockets[flow];
            let gave = if self.segment {
                send_segmented(socket, &packets[at..])
            } else {
                self.many.send(socket, &packets[at..], MsgFlags::empty())
            };
            let error = match gave {
                Ok(sent) => {
                    account.sent += sent as u64;
                    at += sent;
                    refused_before = false;
                    continue;
                }
                Err(error) => error,
            };
            let blocked = matches!(error, Errno::EAGAIN | Errno::EINTR);
            if !blocked {
                account.failed(error);
            }
            if over() {
                account.unsent += (packets.len() - at) as u64;
                return;
            }
            // This error belongs to an earlier packet (ICMP), so this one was not yet tried.
            let stale = error == Errno::ECONNREFUSED && !refused_before;
            refused_before |= stale;
            if !(blocked || stale) {
                account.unsent += 1;
                at += 1;
                refused_before = false;
            }
        }
    }
}

impl Outlet for Udp {
    fn add(&mut self, packet: Packet) {
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.resize(packet.payload.into(), 0);
        let header = Header {
            transmission: self.transmission,
            sequence: packet.number,
            pktgen: false,
            clock: Clock::Realtime,
            stamp: 0,
        };
        header.write(payload.first_chunk_mut().expect("payload holds the header"));
        self.waiting.push(payload);
        // A batch is of one flow, so that packets leave in their order.
        let turn = packet.number / self.batch % self.sockets.len() as u64;
        self.flows.push(usize::try_from(turn).expect("below a u16"));
    }

    fn send(&mut self, account: &mut Account, over: &dyn Fn() -> bool) -> State {
        let mut packets = std::mem::take(&mut self.waiting);
        let mut from = 0;
        while from < packets.len() {
            let flow = self.flows[from];
            let end = (from..packets.len()).find(|&at| self.flows[at] != flow);
            let end = end.unwrap_or(packets.len());
            self.send_flow(flow, &mut packets[from..end], account, over);
            from = end;
        }
        self.flows.clear();
        self.spare.append(&mut packets);
        self.waiting = packets;
        State::Open
    }
}
