// SPDX-License-Identifier: GPL-2.0-or-later
//! UDP sockets, one for each flow: packets pass through the stack.

use std::io;
use std::net::UdpSocket;
use std::slice;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use super::outlet::{Account, Outlet, Packet, State};
use super::plan::{Plan, Txtime};
use crate::clock::{monotonic_ns, nanoseconds, realtime_ns};
use crate::header::{Clock, Header};
use crate::many::Many;
use crate::report::TxtimeReport;
use crate::socket::{describe, open_sender, segment, send_segmented};
use crate::txtime::{self, Told};

/// So long after the last packet's time its queue discipline has told of it.
const AFTER: Duration = Duration::from_millis(10);

/// UDP sockets, one for each flow.
pub struct Udp {
    sockets: Vec<UdpSocket>,
    transmission: u16,
    batch: u64,
    segment: bool,
    /// Packets of this batch in their order, and the flow of each.
    waiting: Vec<Vec<u8>>,
    flows: Vec<usize>,
    /// When each is to leave, by the monotonic clock; empty unless the kernel is told.
    dues_ns: Vec<u64>,
    /// Payloads that are not used now.
    spare: Vec<Vec<u8>>,
    many: Many,
    timed: Option<Timed>,
}

/// What is known of packets that have times.
struct Timed {
    plan: Txtime,
    told: Told,
    /// When the last one is to leave.
    last_ns: u64,
    /// Times of the packets of one call, by the clock that the kernel has them by.
    times_ns: Vec<u64>,
}

impl Udp {
    /// Open the sockets of a plan.
    ///
    /// # Errors
    /// In one line what the kernel said.
    ///
    /// # Panics
    /// If packets are to be segmented, and have not one size.
    pub fn open(plan: &Plan) -> Result<Self, String> {
        Self::opened(plan).map_err(|error| match plan.txtime {
            Some(txtime) if error.kind() == io::ErrorKind::PermissionDenied => {
                format!("--txtime {} needs CAP_NET_ADMIN: run it as root", txtime.by.name())
            }
            _ => format!("cannot open a socket to {}: {}", plan.to, describe(&error)),
        })
    }

    fn opened(plan: &Plan) -> io::Result<Self> {
        let sockets = (0..plan.flows)
            .map(|flow| {
                let port = if plan.source_port == 0 { 0 } else { plan.source_port + flow };
                open_sender(plan.to, port)
            })
            .collect::<io::Result<Vec<_>>>()?;
        if let Some(txtime) = plan.txtime {
            for socket in &sockets {
                txtime::ask(socket, txtime.by)?;
            }
        }
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
            dues_ns: Vec::new(),
            spare: Vec::new(),
            many: Many::default(),
            timed: plan.txtime.map(|plan| Timed {
                plan,
                told: Told::default(),
                last_ns: 0,
                times_ns: Vec::new(),
            }),
        })
    }

    fn send_flow(
        &mut self,
        flow: usize,
        packets: &mut [Vec<u8>],
        dues_ns: &[u64],
        account: &mut Account,
        over: &dyn Fn() -> bool,
    ) {
        self.stamp(packets, dues_ns);
        let mut at = 0;
        let mut refused_before = false;
        while at < packets.len() {
            let socket = &self.sockets[flow];
            let gave = if self.segment {
                send_segmented(socket, &packets[at..])
            } else {
                let times_ns = self.timed.as_ref().map_or(&[][..], |timed| &timed.times_ns[at..]);
                self.many.send(socket, &packets[at..], times_ns, MsgFlags::empty())
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
            // Of packets with times, the socket's error queue tells of this one.
            let told = self.timed.is_some() && error == Errno::ECONNREFUSED;
            if !(blocked || told) {
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

impl Udp {
    /// Write into each packet when it leaves: now, or at the time that the kernel is told of.
    fn stamp(&mut self, packets: &mut [Vec<u8>], dues_ns: &[u64]) {
        let stamp = |packet: &mut Vec<u8>, stamp_ns| {
            Header::stamp(packet.first_chunk_mut().expect("a header"), stamp_ns);
        };
        let Some(timed) = &mut self.timed else {
            for packet in packets {
                stamp(packet, realtime_ns());
            }
            return;
        };
        let ahead_ns = timed.plan.by.ahead_ns();
        timed.times_ns.clear();
        for (packet, &due_ns) in packets.iter_mut().zip(dues_ns) {
            stamp(packet, realtime_ns() + due_ns.saturating_sub(monotonic_ns()));
            timed.times_ns.push(due_ns + ahead_ns);
            timed.last_ns = timed.last_ns.max(due_ns);
        }
    }
}

/// Read what the sockets of packets with times were told of them.
fn listen(timed: Option<&mut Timed>, sockets: &[UdpSocket], account: &mut Account) {
    let Some(timed) = timed else { return };
    let before = timed.told.nobody;
    for socket in sockets {
        if let Err(error) = txtime::told(socket, &mut timed.told) {
            account.failed(Errno::from_raw(error.raw_os_error().unwrap_or(0)));
        }
    }
    for _ in before..timed.told.nobody {
        account.failed(Errno::ECONNREFUSED);
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
        if self.timed.is_some() {
            self.dues_ns.push(packet.due_ns);
        }
    }

    fn send(&mut self, account: &mut Account, over: &dyn Fn() -> bool) -> State {
        let mut packets = std::mem::take(&mut self.waiting);
        let dues_ns = std::mem::take(&mut self.dues_ns);
        let mut from = 0;
        while from < packets.len() {
            let flow = self.flows[from];
            let end = (from..packets.len()).find(|&at| self.flows[at] != flow);
            let end = end.unwrap_or(packets.len());
            let dues_ns = dues_ns.get(from..end).unwrap_or_default();
            self.send_flow(flow, &mut packets[from..end], dues_ns, account, over);
            listen(self.timed.as_mut(), slice::from_ref(&self.sockets[flow]), account);
            from = end;
        }
        self.flows.clear();
        self.spare.append(&mut packets);
        self.waiting = packets;
        self.dues_ns = dues_ns;
        self.dues_ns.clear();
        State::Open
    }

    fn times(&mut self, account: &mut Account) -> Option<TxtimeReport> {
        let last_ns = self.timed.as_ref()?.last_ns;
        // What is told of the last packets is told after their time.
        let wait_ns = last_ns.saturating_sub(monotonic_ns());
        thread::sleep(Duration::from_nanos(wait_ns) + AFTER);
        listen(self.timed.as_mut(), &self.sockets, account);
        self.timed.as_ref().map(|timed| TxtimeReport {
            by: timed.plan.by.name(),
            clock: timed.plan.by.clock_name(),
            lead_ns: nanoseconds(timed.plan.lead),
            missed: timed.told.dropped.missed,
            invalid: timed.told.dropped.invalid,
        })
    }
}
