// SPDX-License-Identifier: GPL-2.0-or-later
//! What the TCP commands print: one JSON document each, schema `skblab.traffic/2`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::pool::Tally;
use crate::pace::Rate;
use crate::report::{DistributionReport, LateReport};

/// How often something went wrong, by its kernel name, such as `ECONNREFUSED`; `closed` is that the
/// other end closed the connection too early, `garbled` that what came was no answer of ours.
pub type Errors = BTreeMap<String, u64>;

/// Why a client or a server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All that was asked for was begun.
    Count,
    /// The time limit came first.
    Seconds,
    /// SIGINT or SIGTERM.
    Signal,
    /// No connection came about, and the first of them failed.
    Unreachable,
}

/// `attempted = completed + failed + unfinished`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TallyReport {
    /// Begun.
    pub attempted: u64,
    /// Brought to their end.
    pub completed: u64,
    /// Failed; why is in the errors.
    pub failed: u64,
    /// Under way when the program was stopped.
    pub unfinished: u64,
}

impl From<Tally> for TallyReport {
    fn from(tally: Tally) -> Self {
        Self {
            attempted: tally.attempted,
            completed: tally.completed,
            failed: tally.failed,
            unfinished: tally.under_way(),
        }
    }
}

/// What went wrong, by when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorsReport {
    /// While connecting: `EADDRNOTAVAIL` says that no port was left.
    pub connect: Errors,
    /// From a request until its end.
    pub request: Errors,
    /// While a connection that is kept waited for the next request.
    pub idle: Errors,
}

/// The client's account of requests and answers.
#[derive(Debug, Serialize)]
pub struct ExchangeReport {
    /// [`crate::report::SCHEMA`].
    pub schema: &'static str,
    /// `tcp_rr` if connections were kept, `tcp_crr` if each transaction had its own.
    pub role: &'static str,
    /// Address and port of the server.
    pub to: String,
    /// Addresses that connections came from; null if the kernel chose.
    pub from: Option<String>,
    /// Transactions asked for; null if only time was the limit.
    pub asked: Option<u64>,
    /// Connections at once, at most.
    pub flows: usize,
    /// Bytes of each request.
    pub request_bytes: u32,
    /// Bytes of each answer.
    pub response_bytes: u32,
    /// How connections were closed; null of those that were kept.
    pub close: Option<&'static str>,
    /// Transactions.
    pub transactions: TallyReport,
    /// Connections; completed ones were there.
    pub connections: TallyReport,
    /// What went wrong.
    pub errors: ErrorsReport,
    /// Transactions per second asked for; 0 is as fast as possible, or by intervals.
    pub rate_asked: Rate,
    /// Intervals as they were asked for; null if a rate was.
    pub intervals: Option<String>,
    /// Transactions per second by the times that they were due; null without such times.
    pub rate_planned: Option<f64>,
    /// Transactions completed per second; null for fewer than two.
    pub rate_reached: Option<f64>,
    /// From when the first transaction was begun to when the last one was, seconds.
    pub seconds: f64,
    /// How long after their times transactions were begun; null without a rate.
    pub late: Option<LateReport>,
    /// From when a connection was begun until it was there.
    pub connect: DistributionReport,
    /// From a request until its answer was whole.
    pub request: DistributionReport,
    /// From when a transaction was begun until its answer was whole, so with the connection.
    pub transaction: DistributionReport,
    /// From when a transaction was due until its answer was whole; null without a rate.
    pub since_due: Option<DistributionReport>,
    /// By how much of its value a percentile may be off.
    pub percentile_error: f64,
    /// Segments that were sent again on connections that are kept; null of others.
    pub retransmitted: Option<u64>,
    /// Why it stopped.
    pub stopped_by: Ended,
}

/// The client's account of streams.
#[derive(Debug, Serialize)]
pub struct StreamReport {
    /// [`crate::report::SCHEMA`].
    pub schema: &'static str,
    /// Always `tcp_stream`.
    pub role: &'static str,
    /// Address and port of the server.
    pub to: String,
    /// Addresses that connections came from; null if the kernel chose.
    pub from: Option<String>,
    /// Writes asked for; null if only time was the limit.
    pub asked: Option<u64>,
    /// Whether the server sends.
    pub reverse: bool,
    /// Bytes of each write; null if the server sends.
    pub write_bytes: Option<u32>,
    /// Writes that were begun; null if the server sends.
    pub writes: Option<u64>,
    /// Connections; of completed ones the server has told how much it was.
    pub connections: TallyReport,
    /// What went wrong.
    pub errors: ErrorsReport,
    /// Bytes that the sender's kernel took; if the server sends, of completed connections alone.
    pub sent_bytes: u64,
    /// Bytes that came, of completed connections.
    pub received_bytes: u64,
    /// Bits per second asked for; 0 is as fast as possible.
    pub rate_asked: u64,
    /// Bits per second by the times that writes were due; null without a rate.
    pub rate_planned: Option<f64>,
    /// Bits per second that the kernel took, first to last write; null for fewer than two writes, and
    /// if the server sends.
    pub rate_reached: Option<f64>,
    /// From the first to the last write, seconds.
    pub seconds: f64,
    /// Bits per second that came: from the first write, or the first byte that came, until the server had told of all; null if
    /// nothing came.
    pub received_rate: Option<f64>,
    /// That time, seconds.
    pub received_seconds: f64,
    /// How long after their times writes were begun; null without a rate.
    pub late: Option<LateReport>,
    /// The kernel's smoothed round-trip times, ten times a second of each connection; none if the
    /// server sends, which tells its last one of each.
    pub rtt: DistributionReport,
    /// By how much of its value a percentile may be off.
    pub percentile_error: f64,
    /// Segments that were sent; null if the server did.
    pub segments: Option<u64>,
    /// Of these, those that were sent again.
    pub retransmitted: u64,
    /// Bytes that were sent again; null if the server sent them.
    pub retransmitted_bytes: Option<u64>,
    /// Each connection.
    pub flows: Vec<FlowReport>,
    /// Why it stopped.
    pub stopped_by: Ended,
}

/// One connection of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowReport {
    /// Bytes that the kernel took.
    pub sent_bytes: u64,
    /// Bytes that came, as the server told; null if it did not.
    pub received_bytes: Option<u64>,
    /// From the first byte to the last one at the server, by its clock, seconds.
    pub received_seconds: Option<f64>,
    /// The kernel's last smoothed round-trip time, nanoseconds.
    pub rtt_ns: u64,
    /// The shortest round trip, nanoseconds; null if not known.
    pub min_rtt_ns: Option<u64>,
    /// Segments that were sent again.
    pub retransmitted: u64,
}

/// The server's account: `accepted = closed + failed + open`.
#[derive(Debug, Serialize)]
pub struct ServeReport {
    /// [`crate::report::SCHEMA`].
    pub schema: &'static str,
    /// Always `tcp_serve`.
    pub role: &'static str,
    /// Address and port bound.
    pub bind: String,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those that ended between requests.
    pub closed: ClosedReport,
    /// Those that did not; why is in the errors.
    pub failed: u64,
    /// Those that were there at the end.
    pub open: u64,
    /// The most of them at once.
    pub most_open: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Streams that came to their end.
    pub streams: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes that the kernel took.
    pub sent_bytes: u64,
    /// What went wrong; `foreign` is that what came was no request of ours.
    pub errors: Errors,
    /// How often no connection was accepted as so many were there already.
    pub full: u64,
    /// Why it stopped.
    pub stopped_by: Ended,
}

/// Connections that ended between requests, by who ended them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClosedReport {
    /// The client closed it.
    pub by_client: u64,
    /// The server did, as it was asked to.
    pub by_server: u64,
    /// The client reset it.
    pub by_reset: u64,
}
