// SPDX-License-Identifier: GPL-2.0-or-later
//! What the two programs print: one JSON document each, schema `skblab.traffic/2`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock_probe::Kept;
use crate::pace::Rate;

/// Name and version of the format; a change that breaks a reader changes it.
pub const SCHEMA: &str = "skblab.traffic/2";

/// Why a program stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// All packets asked for were sent or received.
    Count,
    /// Nothing more arrived for the time given.
    Idle,
    /// The time limit came first.
    Seconds,
    /// SIGINT or SIGTERM.
    Signal,
    /// The device that frames were sent from was taken away.
    Device,
}

/// The sender's account.
#[derive(Debug, Serialize)]
pub struct SendReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Always `send`.
    pub role: &'static str,
    /// What was sent.
    #[serde(flatten)]
    pub packets: SentReport,
    /// Sizes as they were asked for.
    pub sizes: String,
    /// Packets of which the size was too small for the header, or too large, and was changed.
    pub clipped: u64,
    /// UDP payloads, bytes.
    pub payload_bytes: SizeReport,
    /// What an Ethernet frame has beside them, with checksum, bytes.
    pub frame_overhead: u16,
    /// Source ports used.
    pub flows: u16,
    /// What random sizes and intervals began with.
    pub seed: u64,
    /// At most so many packets were given to the kernel at once.
    pub batch: usize,
    /// Whether the kernel cut batches into packets (`UDP_SEGMENT`).
    pub segment: bool,
    /// Packets per second asked for; 0 is as fast as possible, or by intervals.
    pub rate_asked: Rate,
    /// Where the rate changed; null if it did not.
    pub step: Option<StepReport>,
    /// How far behind its schedule the sender was; null without a rate.
    pub late: Option<LateReport>,
    /// Who kept the times of packets, and which it could not; null if the sender itself did.
    pub txtime: Option<TxtimeReport>,
    /// What the device counted that frames were sent from; null if they were sent by sockets.
    pub device: Option<DeviceReport>,
}

/// What every sender says of its packets: `attempted = sent + unsent`.
#[derive(Debug, Serialize)]
pub struct SentReport {
    /// Destination address and port.
    pub to: String,
    /// Packets asked for; null if only time was the limit.
    pub asked: Option<u64>,
    /// Packets of which sending was tried.
    pub attempted: u64,
    /// Packets the kernel took.
    pub sent: u64,
    /// Packets the kernel refused.
    pub unsent: u64,
    /// Failed calls by errno name, those of round trips also of receiving: `ECONNREFUSED` says that
    /// nothing listens there. A packet that succeeds on a second call counts as sent. From a device
    /// each packet has one call's chance, and the sum is `unsent`: of one that was refused behind
    /// others of its batch the kernel does not say why, and its error is `unnamed`.
    pub errors: BTreeMap<String, u64>,
    /// The transmission's number in each header.
    pub transmission: u16,
    /// Intervals as they were asked for; null if a rate was.
    pub intervals: Option<String>,
    /// The rates.
    #[serde(flatten)]
    pub pace: PaceReport,
    /// Why the sender stopped.
    pub stopped_by: Stopped,
}

/// Rates of packets that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PaceReport {
    /// Packets per second by the times that the packets were due; null without such times, and for
    /// fewer than two packets.
    pub rate_planned: Option<f64>,
    /// Packets per second reached, first to last packet; null for fewer than two.
    pub rate_reached: Option<f64>,
    /// First to last packet, seconds.
    pub seconds: f64,
}

/// Packets that the kernel had ahead of their times (`SO_TXTIME`).
///
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TxtimeReport {
    /// The queue discipline that times were for: `fq` or `etf`.
    pub by: &'static str,
    /// The clock that it has them by.
    pub clock: &'static str,
    /// So long before its time the kernel had a packet, nanoseconds.
    pub lead_ns: u64,
    /// Packets that it dropped because their time was over when they could have left; they are in
    /// `sent`, as the kernel took them. `fq` drops none: these leave late.
    pub missed: u64,
    /// Packets that it refused because their time was over already, or of another clock; they are
    /// in `unsent`.
    pub invalid: u64,
}

/// A change of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// When the first packet at the new rate was due, from when the very first one was, nanoseconds.
    pub at_ns: u64,
    /// The number of that packet, from 0.
    pub sequence: u64,
    /// Packets per second from then on.
    pub rate: Rate,
}

/// How counters of a device changed while it was sent from: of all its packets, others' too.
///
/// A packet that the driver drops and says nothing of is in `sent` and in `tx_dropped`; one that it
/// refuses is in `unsent`, and with most drivers in `tx_dropped` as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Packets that it has sent; null if it was taken away.
    pub tx_packets: Option<u64>,
    /// Packets that it has dropped instead; null if it was taken away.
    pub tx_dropped: Option<u64>,
}

/// Sizes of packets, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeReport {
    /// The smallest; 0 without packets.
    pub min: u32,
    /// The largest.
    pub max: u32,
    /// All together.
    pub sum: u64,
}

impl SizeReport {
    /// Add one.
    pub fn add(&mut self, bytes: u32) {
        self.min = if self.sum == 0 { bytes } else { self.min.min(bytes) };
        self.max = self.max.max(bytes);
        self.sum += u64::from(bytes);
    }
}

/// How far behind its schedule the sender was.
#[derive(Debug, Serialize)]
pub struct LateReport {
    /// Packets that left later than this are counted, nanoseconds.
    pub threshold_ns: u64,
    /// Packets later than the threshold.
    pub count: u64,
    /// Mean over all packets, nanoseconds.
    pub mean_ns: f64,
    /// The worst packet, nanoseconds.
    pub max_ns: u64,
}

/// The receiver's account:
/// `received = distinct + duplicates + too_old + beyond + foreign.total`.
#[derive(Debug, Serialize)]
pub struct ReceiveReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Always `receive`.
    pub role: &'static str,
    /// Address and port bound.
    pub bind: String,
    /// The transmission that the packets had to be of; null if no packet came.
    pub transmission: Option<u16>,
    /// Packets expected; null if not known.
    pub expected: Option<u64>,
    /// Datagrams of any kind that came to the socket, or by the device for this address and port.
    pub received: u64,
    /// Payload bytes of the datagrams of this transmission.
    pub bytes: u64,
    /// Packets seen for the first time.
    pub distinct: u64,
    /// Packets seen again.
    pub duplicates: u64,
    /// Distinct packets that came after a higher number (RFC 4737), over all flows.
    pub reordered: u64,
    /// The same within each flow, where order is promised.
    pub reordered_in_flow: u64,
    /// Expected minus distinct; without an expectation, the gaps below the highest number.
    pub lost: u64,
    /// Too far behind to be told new from repeated.
    pub too_old: u64,
    /// Numbers at or above the expected count.
    pub beyond: u64,
    /// Datagrams that are not of this transmission.
    pub foreign: ForeignReport,
    /// Sources (address and port) of which a packet came; beyond 65 536, that many.
    pub flows: u32,
    /// The receiving socket.
    pub socket: SocketReport,
    /// First to last packet of this transmission, seconds.
    pub seconds: f64,
    /// Packets of it per second, first to last; null for fewer than two.
    pub rate: Option<f64>,
    /// Which times of arrival the figures below are of.
    pub stamps: StampsReport,
    /// From one packet to the next; all times are of distinct packets, in the order they came.
    pub inter_arrival: DistributionReport,
    /// How far these are from the interval that was asked for; null if none was given.
    pub inter_arrival_error: Option<DistributionReport>,
    /// Absolute difference of the one-way delays of successive packets (RFC 4689).
    pub jitter: DistributionReport,
    /// One-way delay; null unless sender and receiver have one clock, or what theirs differ by was told.
    pub delay: Option<DistributionReport>,
    /// Why `delay` is null, in words; null if it is not.
    pub delay_unknown: Option<&'static str>,
    /// What was told of the two clocks, and is taken off `delay`; null if nothing was.
    pub clock_line: Option<ClockLineReport>,
    /// By how much of its value a percentile may be off.
    pub percentile_error: f64,
    /// What came of recording each packet; null if it was not asked for.
    pub record: Option<RecordReport>,
    /// Why the receiver stopped.
    pub stopped_by: Stopped,
}

/// Where the times of arrival are from.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StampsReport {
    /// Their clock.
    pub clock: &'static str,
    /// Who stamps: `kernel`, in software, as the packet enters the network stack.
    pub kind: &'static str,
    /// Datagrams that the kernel gave no stamp: theirs is when the receiver had read them.
    pub not_by_kernel: u64,
    /// By how much the clock was set meanwhile, nanoseconds; slewing is not in it.
    pub stepped_ns: i64,
}

/// One kind of time, nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DistributionReport {
    /// Values; all other figures are of these.
    pub count: u64,
    /// Values below zero, which are in no other figure.
    pub negative: u64,
    /// The smallest; null without any.
    pub min_ns: Option<u64>,
    /// Their mean; null without any.
    pub mean_ns: Option<f64>,
    /// Standard deviation (n - 1); null for fewer than two.
    pub sd_ns: Option<f64>,
    /// The largest; null without any.
    pub max_ns: Option<u64>,
    /// By its name: 50, 90, 99 … 99.999; only those with ten values beyond them.
    pub percentiles_ns: BTreeMap<&'static str, u64>,
}

/// What came of recording: `received = kept + lost`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// The file.
    pub file: String,
    /// Datagrams whose record is in the file.
    pub kept: u64,
    /// Datagrams whose record is not.
    pub lost: u64,
    /// Of these: the file was written too slowly, and the memory for records was full.
    pub too_slow: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// What the system said when writing failed; null if it did not.
    pub error: Option<String>,
}

/// Datagrams that are not of this transmission, by what gave them away.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ForeignReport {
    /// All of them.
    pub total: u64,
    /// Too short for a header.
    pub short: u64,
    /// No known magic.
    pub magic: u64,
    /// A header version this program cannot read.
    pub version: u64,
    /// The number of another transmission.
    pub other_transmission: u64,
}

/// The receiving socket's buffer, of a device the ring, and what the kernel dropped for want of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SocketReport {
    /// Buffer asked for, bytes; null if left as it was.
    pub rcvbuf_asked: Option<u32>,
    /// Buffer in force as the kernel counts it (twice what was asked), bytes.
    pub rcvbuf: u32,
    /// Packets dropped at this socket, read from it at the end (`SO_MEMINFO`); of a device all
    /// frames that found no room, whomever they were for (`PACKET_STATISTICS`).
    pub drops: u32,
    /// The same as carried by the last packet (`SO_RXQ_OVFL`); later drops are not in it. Of a
    /// device it is 0.
    pub drops_seen: u32,
    /// With `AF_XDP`, the queues of the device, and how they were read; null without.
    pub xdp: Option<XdpReport>,
}

/// How frames were received by `AF_XDP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct XdpReport {
    /// Queues of the device, each of which has a socket.
    pub queues: usize,
}

/// The echo's account: `received = echoed + refused`.
#[derive(Debug, Serialize)]
pub struct EchoReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Always `echo`.
    pub role: &'static str,
    /// Address and port bound.
    pub bind: String,
    /// Datagrams of any kind that came.
    pub received: u64,
    /// Those that were sent back.
    pub echoed: u64,
    /// Payload bytes of these.
    pub bytes: u64,
    /// Those that were not.
    pub refused: RefusedReport,
    /// Failed calls by errno name.
    pub errors: BTreeMap<String, u64>,
    /// Packets dropped at this socket before they were read.
    pub drops: u32,
    /// First to last datagram, seconds.
    pub seconds: f64,
    /// Datagrams per second, first to last; null for fewer than two.
    pub rate: Option<f64>,
    /// Why the echo stopped.
    pub stopped_by: Stopped,
}

/// Datagrams that were not sent back, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusedReport {
    /// No header that is known.
    pub foreign: u64,
    /// Sent from the number of the echo's own port: maybe another echo's.
    pub own_port: u64,
    /// The kernel did not take it.
    pub by_kernel: u64,
}

/// The account of round trips: `sent = distinct + lost`,
/// `received = distinct + duplicates + too_old + beyond + foreign`.
#[derive(Debug, Serialize)]
pub struct RoundTripReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Always `round_trip`.
    pub role: &'static str,
    /// What was sent, to the echo.
    #[serde(flatten)]
    pub packets: SentReport,
    /// UDP payload of each packet, bytes.
    pub payload_bytes: u16,
    /// Packets per second asked for; 0 if intervals were.
    pub rate_asked: u32,
    /// How far behind its schedule the sender was.
    pub late: LateReport,
    /// Datagrams of any kind that came.
    pub received: u64,
    /// Packets seen for the first time.
    pub distinct: u64,
    /// Packets seen again.
    pub duplicates: u64,
    /// Distinct packets that came after a higher number (RFC 4737).
    pub reordered: u64,
    /// Too far behind to be told new from repeated.
    pub too_old: u64,
    /// Numbers that were not sent.
    pub beyond: u64,
    /// Datagrams that are not of this transmission.
    pub foreign: u64,
    /// Sent and not seen again.
    pub lost: u64,
    /// Packets dropped at this socket before they were read.
    pub drops: u32,
    /// Which times of arrival the figures below are of.
    pub stamps: StampsReport,
    /// From one packet to the next.
    pub inter_arrival: DistributionReport,
    /// Absolute difference of the round trips of successive packets.
    pub jitter: DistributionReport,
    /// From the sender's stamp to the kernel's stamp of the packet that came back.
    pub round_trip: DistributionReport,
    /// By how much of its value a percentile may be off.
    pub percentile_error: f64,
    /// What came of recording each packet; null if it was not asked for.
    pub record: Option<RecordReport>,
}

/// How late a task was woken.
#[derive(Debug, Serialize)]
pub struct WakeupReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Always `wakeup`.
    pub role: &'static str,
    /// Sleeps per second asked for.
    pub rate: u32,
    /// Times that were over when the task could have slept until them.
    pub missed: u64,
    /// From the time that was slept until to the time when the task ran.
    pub late: DistributionReport,
    /// By how much of its value a percentile may be off.
    pub percentile_error: f64,
    /// Why it stopped.
    pub stopped_by: Stopped,
}

/// By how much the clock of an echo's machine is ahead of this machine's: `CLOCK_REALTIME` of both.
#[derive(Debug, Serialize)]
pub struct ClockReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Always `clock`.
    pub role: &'static str,
    /// Address and port of the echo.
    pub to: String,
    /// Probes that the kernel took.
    pub sent: u64,
    /// Probes that it refused.
    pub unsent: u64,
    /// Probes that came back with the echo's times.
    pub answered: u64,
    /// Failed calls by errno name.
    pub errors: BTreeMap<String, u64>,
    /// Of those answered: a program and not the kernel stamped the arrival, here or there.
    pub not_by_kernel: u64,
    /// The shortest way there and back, without the echo, nanoseconds; null without an answer.
    pub round_trip_ns: Option<u64>,
    /// By how much it is ahead; null if that is not known.
    pub ahead: Option<AheadReport>,
    /// Why it is not known, in words; null if it is.
    pub unknown: Option<&'static str>,
    /// It is ahead by no more than that.
    pub most: Option<BoundReport>,
    /// It is ahead by no less than that.
    pub least: Option<BoundReport>,
    /// What this machine's kernel says of its clock.
    pub near: KeptReport,
    /// What that of the echo says; null without an answer.
    pub far: Option<KeptReport>,
    /// By how much this machine's clock was set meanwhile, nanoseconds.
    pub stepped_ns: i64,
}

/// By how much a clock is ahead while probes ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AheadReport {
    /// Nanoseconds; negative if it is behind.
    pub ahead_ns: i64,
    /// It may be as much more or less, nanoseconds.
    pub off_ns: u64,
    /// When, by this machine's clock, nanoseconds since 1970.
    pub at_ns: u64,
    /// And by the clock of the echo's machine, which is the receiver's `--clock-at`.
    pub there_ns: u64,
}

/// A bound of how far a clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BoundReport {
    /// When it held, nanoseconds of this machine's `CLOCK_REALTIME`.
    pub at_ns: u64,
    /// Nanoseconds.
    pub ahead_ns: i64,
}

/// What a kernel says of its `CLOCK_REALTIME` (`adjtimex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeptReport {
    /// Whether a program keeps it right (NTP, PTP).
    pub synchronized: bool,
    /// The largest error that this program told the kernel, microseconds.
    pub max_error_us: u32,
    /// How much faster than by itself it is made to run, 10⁻⁹.
    pub frequency_ppb: i64,
}

impl KeptReport {
    /// As it is reported.
    #[must_use]
    pub fn of(kept: Kept) -> Self {
        let Kept { synchronized, max_error_us, frequency_ppb } = kept;
        Self { synchronized, max_error_us, frequency_ppb }
    }
}

/// How far the receiver's clock was taken to be ahead of the sender's, as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockLineReport {
    /// By so many nanoseconds,
    pub ahead_ns: i64,
    /// at this time of the receiver's clock,
    pub at_ns: u64,
    /// and by so much more with each second, nanoseconds.
    pub drift_ppb: i64,
}
