// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiver: many packets at once, from a socket or a device, each accounted for.

mod inlet;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::arrival;
use crate::batch::Datagram;
use crate::clock::{NS_PER_SEC, monotonic_ns, nanoseconds, realtime_ns};
use crate::clock_probe;
use crate::distribution;
use crate::header::{Clock, Foreign, Header};
use crate::record::{self, FileHeader, Record, flags};
use crate::recorder::Recorder;
use crate::report::{
    ClockLineReport, ForeignReport, ReceiveReport, RecordReport, SCHEMA, SocketReport,
    StampsReport, Stopped,
};
use crate::sequence::{Tracker, Verdict};
use crate::socket::{TICK, describe};
use crate::timing::{Clocks, Line, Timing};

use inlet::Inlet;

/// What to receive.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Address and port to bind.
    pub bind: SocketAddr,
    /// The device whose frames are looked at, before the stack; `None`: a UDP socket.
    pub device: Option<String>,
    /// By `AF_XDP`, from a device.
    pub xdp: bool,
    /// Packets expected; receiving ends when all are there.
    pub expect: Option<u64>,
    /// Transmission to count; `None` takes that of the first packet.
    pub transmission: Option<u16>,
    /// Stop when nothing came for so long after the first packet.
    pub idle: Duration,
    /// Wait for duplicates so long after the last expected packet.
    pub linger: Duration,
    /// Longest time to receive, from the start.
    pub limit: Duration,
    /// Receive buffer, or memory for frames of a device, bytes.
    pub rcvbuf: Option<u32>,
    /// What is known of the two clocks, so that one-way delays are.
    pub clocks: Clocks,
    /// What was asked for between two packets, nanoseconds.
    pub interval_ns: Option<f64>,
}

/// A bound receiver.
pub struct Receiver<'a> {
    inlet: Box<dyn Inlet>,
    ledger: Ledger<'a>,
}

/// What was received.
struct Ledger<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    tracker: Tracker,
    transmission: Option<u16>,
    /// The sender's clock, of the first packet.
    sender_clock: Option<Clock>,
    begun_ns: u64,
    /// Numbers of the sources, in the order in which they came.
    flows: HashMap<SocketAddr, u16>,
    /// The last source: packets of one come in a row.
    last_flow: Option<(SocketAddr, u16)>,
    foreign: ForeignReport,
    received: u64,
    counted: u64,
    bytes: u64,
    drops_seen: u32,
    /// When the first and the last packet of the transmission came.
    span_ns: Option<(u64, u64)>,
    not_by_kernel: u64,
    timing: Timing,
    recorder: Option<Recorder>,
    /// How long nothing has come, in looks of a tick at most.
    quiet_ns: u64,
}

impl<'a> Receiver<'a> {
    /// Bind the socket, or open the device; from here on packets queue up.
    ///
    /// # Errors
    /// In one line what is wrong, e.g. an address in use.
    pub fn bind(plan: &'a Plan, stop: &'a AtomicBool) -> Result<Self, String> {
        let inlet: Box<dyn Inlet> = match &plan.device {
            Some(name) if plan.xdp => Box::new(inlet::Xdp::open(name, plan.bind, plan.rcvbuf)?),
            Some(name) => Box::new(inlet::Frames::open(name, plan.bind, plan.rcvbuf)?),
            None => Box::new(inlet::Udp::open(plan.bind, plan.rcvbuf).map_err(|error| {
                format!("cannot receive on {}: {}", plan.bind, describe(&error))
            })?),
        };
        Ok(Self { inlet, ledger: Ledger::new(plan, stop) })
    }

    /// Keep a record of each datagram.
    #[must_use]
    pub fn record(mut self, recorder: Recorder) -> Self {
        self.ledger.recorder = Some(recorder);
        self
    }

    /// The address bound, with the port the kernel chose if 0 was asked for.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inlet.local_addr()
    }

    /// Receive until all is there, nothing more comes, time is up, or told to stop.
    ///
    /// # Errors
    /// A failing socket. Lost or foreign packets are no error but part of the report.
    pub fn run(mut self) -> io::Result<ReceiveReport> {
        let stopped_by = self.receive();
        // The records are kept whatever happened.
        let header = self.ledger.file_header();
        let record = self.ledger.recorder.take().map(|recorder| recorder.finish(|| header));
        let stopped_by = stopped_by?;
        let socket = SocketReport {
            rcvbuf_asked: self.ledger.plan.rcvbuf,
            rcvbuf: self.inlet.buffer()?,
            drops: self.inlet.drops()?,
            drops_seen: self.ledger.drops_seen,
            xdp: self.inlet.xdp(),
        };
        let bind = self.local_addr()?.to_string();
        Ok(self.ledger.report(bind, socket, stopped_by, record))
    }

    fn receive(&mut self) -> io::Result<Stopped> {
        let ledger = &mut self.ledger;
        let deadline_ns = monotonic_ns().saturating_add(nanoseconds(ledger.plan.limit));
        let mut looked_ns = monotonic_ns();
        loop {
            let counted = ledger.counted;
            self.inlet.receive(&mut |datagram| ledger.account(datagram))?;
            let now_ns = monotonic_ns();
            ledger.quiet_ns = if ledger.counted == counted {
                // A machine that stands still sends nothing either: that is one look, however long.
                ledger.quiet_ns + (now_ns - looked_ns).min(nanoseconds(TICK))
            } else {
                0
            };
            looked_ns = now_ns;
            let header = ledger.file_header();
            if let Some(recorder) = &mut ledger.recorder {
                recorder.tick(now_ns, || header);
            }
            if let Some(reason) = ledger.must_stop(now_ns, deadline_ns) {
                return Ok(reason);
            }
        }
    }
}

impl<'a> Ledger<'a> {
    fn new(plan: &'a Plan, stop: &'a AtomicBool) -> Self {
        Self {
            plan,
            stop,
            tracker: Tracker::new(plan.expect),
            transmission: plan.transmission,
            sender_clock: None,
            begun_ns: realtime_ns(),
            flows: HashMap::new(),
            last_flow: None,
            foreign: ForeignReport::default(),
            received: 0,
            counted: 0,
            bytes: 0,
            drops_seen: 0,
            span_ns: None,
            not_by_kernel: 0,
            timing: Timing::new(plan.clocks, plan.interval_ns),
            recorder: None,
            quiet_ns: 0,
        }
    }

    fn account(&mut self, datagram: &Datagram) {
        self.received += 1;
        self.drops_seen = datagram.drops.unwrap_or(self.drops_seen);
        self.not_by_kernel += u64::from(datagram.stamp_ns.is_none());
        let mut record = arrival::begun(datagram);
        self.judge(datagram, &mut record);
        let header = self.file_header();
        if let Some(recorder) = &mut self.recorder {
            recorder.add(record, || header);
        }
    }

    /// Account for a datagram, and say in its record what it is.
    fn judge(&mut self, datagram: &Datagram, record: &mut Record) {
        let header = match Header::read(datagram.payload) {
            Ok(header) => header,
            Err(why) => {
                self.foreign.total += 1;
                *match why {
                    Foreign::Short => &mut self.foreign.short,
                    Foreign::Magic => &mut self.foreign.magic,
                    Foreign::Version => &mut self.foreign.version,
                } += 1;
                record.flags |= flags::FOREIGN;
                return;
            }
        };
        record.flags |= (header.clock as u32) << flags::CLOCK_SHIFT;
        record.flags |= if header.pktgen { flags::PKTGEN } else { 0 };
        record.flow = datagram.source.map_or(0, |from| self.flow_of(from));
        // A probe that is late is no beginning of a transmission.
        let probe = clock_probe::asks(datagram.payload);
        if probe || header.transmission != *self.transmission.get_or_insert(header.transmission) {
            self.foreign.total += 1;
            self.foreign.other_transmission += 1;
            record.flags |= flags::OTHER_TRANSMISSION;
            record.sequence = header.sequence;
            record.sent_ns = header.sent_ns(record.received_ns);
            return;
        }
        self.sender_clock.get_or_insert(header.clock);
        let highest = self.tracker.highest();
        record.sequence = header.place(highest);
        record.sent_ns = self.timing.sent_ns(&header, record.received_ns);
        let verdict = self.tracker.observe(record.sequence, record.flow);
        if verdict == Verdict::New {
            self.timing.observe(header.clock, record.sent_ns, record.received_ns);
        }
        record.flags |= arrival::judged(verdict, record.sequence, highest);
        self.counted += 1;
        self.bytes += datagram.bytes as u64;
        let (first, last) = self.span_ns.unwrap_or((record.received_ns, record.received_ns));
        self.span_ns = Some((first, last.max(record.received_ns)));
    }

    fn file_header(&self) -> FileHeader {
        FileHeader {
            begun_ns: self.begun_ns,
            transmission: self.transmission,
            sender_clock: self.sender_clock,
            // The user's word, and arrivals have this clock.
            one_clock: self.plan.clocks == Clocks::One
                && self.sender_clock == Some(Clock::Realtime),
            ..FileHeader::default()
        }
    }

    /// The number of a source; those beyond the last number share it, and are not remembered.
    fn flow_of(&mut self, from: SocketAddr) -> u16 {
        match self.last_flow {
            Some((source, flow)) if source == from => return flow,
            _ => (),
        }
        let flow = match (self.flows.get(&from), u16::try_from(self.flows.len())) {
            (Some(&flow), _) => flow,
            (None, Ok(next)) => {
                self.flows.insert(from, next);
                next
            }
            (None, Err(_)) => u16::MAX,
        };
        self.last_flow = Some((from, flow));
        flow
    }

    fn must_stop(&self, now_ns: u64, deadline_ns: u64) -> Option<Stopped> {
        if self.stop.load(Ordering::Relaxed) {
            Some(Stopped::Signal)
        } else if self.tracker.complete() && self.quiet_ns >= nanoseconds(self.plan.linger) {
            Some(Stopped::Count)
        } else if self.span_ns.is_some() && self.quiet_ns >= nanoseconds(self.plan.idle) {
            Some(Stopped::Idle)
        } else if now_ns >= deadline_ns {
            Some(Stopped::Seconds)
        } else {
            None
        }
    }

    fn report(
        self,
        bind: String,
        socket: SocketReport,
        stopped_by: Stopped,
        record: Option<RecordReport>,
    ) -> ReceiveReport {
        let counts = self.tracker.counts();
        let (first_ns, last_ns) = self.span_ns.unwrap_or((0, 0));
        let seconds = (last_ns - first_ns) as f64 / NS_PER_SEC as f64;
        let (delay, delay_unknown) = match self.timing.delay() {
            Ok(delay) => (Some(delay.report()), None),
            Err(why) => (None, Some(why)),
        };
        ReceiveReport {
            schema: SCHEMA,
            role: "receive",
            bind,
            transmission: self.transmission,
            expected: self.plan.expect,
            received: self.received,
            bytes: self.bytes,
            distinct: counts.distinct,
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            reordered_in_flow: counts.reordered_in_flow,
            lost: self.tracker.lost(),
            too_old: counts.too_old,
            beyond: counts.beyond,
            foreign: self.foreign,
            flows: self.tracker.flows(),
            socket,
            seconds,
            rate: (self.counted > 1 && seconds > 0.0).then(|| (self.counted - 1) as f64 / seconds),
            stamps: StampsReport {
                clock: record::clock_name(Clock::Realtime),
                kind: record::STAMPS,
                not_by_kernel: self.not_by_kernel,
                stepped_ns: self.timing.stepped_ns(),
            },
            inter_arrival: self.timing.inter_arrival().report(),
            inter_arrival_error: self
                .timing
                .inter_arrival_error()
                .map(distribution::Distribution::report),
            jitter: self.timing.jitter().report(),
            delay,
            delay_unknown,
            clock_line: match self.plan.clocks {
                Clocks::Ahead(Line { ahead_ns, at_ns, drift_ppb }) => {
                    Some(ClockLineReport { ahead_ns, at_ns, drift_ppb })
                }
                Clocks::Apart | Clocks::One => None,
            },
            percentile_error: distribution::ERROR,
            record,
            stopped_by,
        }
    }
}
