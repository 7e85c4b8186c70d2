// SPDX-License-Identifier: GPL-2.0-or-later
//! What is printed of a file: one JSON document, as `results-schema/analyze.schema.json` has it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::bins::{BinsReport, CameReport};
use crate::columns::Layout;
use crate::density::DensityReport;
use crate::flows::Flow;
use crate::late::{Asked, LateReport, Summary};
use crate::source::{About, LACKS_FLOW, LACKS_PAYLOAD, Place};
use crate::times::TimesReport;
use crate::whole::Whole;
use crate::wide::Wide;

/// All figures of a file; null is what it does not tell, and `unknown` says why.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// The file.
    pub file: String,
    /// `records`, `timestamps` or `pairs`.
    pub format: &'static str,
    /// What could not be read, or is not there.
    pub troubles: Vec<String>,
    /// By field, why it is null.
    pub unknown: BTreeMap<&'static str, String>,
    /// Packets that are looked at.
    pub received: u64,
    /// New ones, whose times are known: all figures of times are of them.
    pub packets: u64,
    /// UDP payload of the transmission.
    pub bytes: Option<u64>,
    /// Seen before.
    pub duplicates: Option<u64>,
    /// New or repeated, unknown which.
    pub too_old: Option<u64>,
    /// With a number that was not expected.
    pub beyond: Option<u64>,
    /// Of another transmission.
    pub other_transmission: Option<u64>,
    /// Without a header that is known.
    pub foreign: Option<u64>,
    /// Stamped by the receiver, late.
    pub not_by_kernel: Option<u64>,
    /// Without times that are such.
    pub bad_times: u64,
    /// Received, and not in the file.
    pub not_kept: u64,
    /// Numbers that are in no packet of the file.
    pub missing: Option<u64>,
    /// Packets that did not come.
    pub lost: Option<u64>,
    /// Their share of all that were to come.
    pub lost_share: Option<f64>,
    /// Packets that came after a higher number.
    pub reordered: Option<Reordered>,
    /// When the first came.
    pub first_ns: Option<i64>,
    /// When the latest came.
    pub latest_ns: Option<i64>,
    /// Between them.
    pub seconds: f64,
    /// Packets per second, between them.
    pub rate: Option<f64>,
    /// From being sent to arrival.
    pub latency_ns: Option<TimesReport>,
    /// `one way` or `round trip`.
    pub latency_of: Option<&'static str>,
    /// RFC 4689.
    pub jitter_ns: Option<TimesReport>,
    /// Between packets as they came.
    pub inter_arrival_ns: TimesReport,
    /// Anomalies, by what was asked for.
    pub late: Option<Vec<LateReport>>,
    /// By flow.
    pub flows: Option<Vec<FlowReport>>,
    /// Over time.
    pub over_time: BinsReport<CameReport>,
}

/// RFC 4737.
#[derive(Debug, Serialize)]
pub struct Reordered {
    /// How many.
    pub count: u64,
    /// Of all new packets.
    pub share: Option<f64>,
    /// By how many packets.
    pub extent_packets: TimesReport,
    /// Extents that are lower bounds.
    pub at_least: u64,
    /// Packets by displacement (RFC 5236).
    pub density: Option<DensityReport>,
}

/// One flow.
#[derive(Debug, Serialize)]
pub struct FlowReport {
    flow: usize,
    packets: u64,
    bytes: u64,
    seconds: f64,
    rate: Option<f64>,
    min_ns: Option<u64>,
    mean_ns: Option<f64>,
    sd_ns: Option<f64>,
    max_ns: Option<u64>,
    /// Null of a flow that is not among the largest.
    percentiles: Option<BTreeMap<&'static str, u64>>,
    histogram: Option<Vec<[u64; 3]>>,
}

impl FlowReport {
    /// Of a flow with packets.
    #[must_use]
    pub fn of(number: usize, flow: &Flow) -> Self {
        let (seconds, rate) = rate(flow.packets, Some(flow.first_ns), Some(flow.last_ns));
        let some = flow.latency.count > 0;
        let count = flow.latency.count;
        let apart = flow.squares.times(count);
        let apart = apart.minus(Wide::product(flow.latency.sum, flow.latency.sum)).to_f64();
        Self {
            flow: number,
            packets: flow.packets,
            bytes: flow.bytes,
            seconds,
            rate,
            min_ns: some.then_some(flow.latency.min),
            mean_ns: flow.latency.mean(),
            sd_ns: (count > 1).then(|| (apart / count as f64 / (count - 1) as f64).sqrt()),
            max_ns: some.then_some(flow.latency.max),
            percentiles: flow.histogram.as_ref().map(|held| held.percentiles(&flow.latency)),
            histogram: flow.histogram.as_ref().map(|held| held.rows()),
        }
    }
}

/// Seconds from the first packet to the latest, and packets per second.
#[must_use]
pub fn rate(packets: u64, first_ns: Option<i64>, latest_ns: Option<i64>) -> (f64, Option<f64>) {
    let span = first_ns.zip(latest_ns).map_or(0, |(first, latest)| (latest - first).max(0));
    let seconds = span as f64 / 1e9;
    (seconds, (packets > 1 && span > 0).then(|| (packets - 1) as f64 / seconds))
}

const NO_NUMBERS: &str = "the file has no numbers of packets";
const NO_SENT: &str = "the file does not say when packets were sent";
const NOT_SAID: &str =
    "the clocks of sender and receiver may differ; if both are one, give --same-clock";
const OTHER_CLOCK: &str = "the sender's stamps are of CLOCK_MONOTONIC, those of arrival are not, and \
                           their difference is not known to a nanosecond";
const NOT_KEPT: &str =
    "packets that were received are not in the file: no more than `missing` are lost";
const WRAPPED: &str = "its numbers are 2^63 or more apart: they began anew, or are wrong";
/// No transmission has so many packets.
const TOO_MANY: u64 = 1 << 63;
const OF_LARGEST: &str = "there are more flows than 256, and these with the most packets have them";
const ONE_FLOW: &str = "numbers go over all flows, and one of them was looked at";

/// Why latencies are not known, if they are not.
fn no_latency(whole: &Whole) -> Option<&'static str> {
    let clocks = whole.wanted.clocks;
    if !clocks.sent {
        Some(NO_SENT)
    } else if !clocks.one {
        Some(NOT_SAID)
    } else {
        (whole.figures.counts.unlike > 0).then_some(OTHER_CLOCK)
    }
}

/// What the file does not tell, and why.
fn unknown(about: &About, whole: &Whole, not_kept: u64) -> BTreeMap<&'static str, String> {
    let wanted = whole.wanted;
    let mut unknown = BTreeMap::new();
    if let Some(why) = no_latency(whole) {
        unknown.insert("latency_ns", why);
        unknown.insert("late", why);
    }
    if !wanted.clocks.sent {
        unknown.insert("jitter_ns", NO_SENT);
    }
    if !wanted.numbered {
        for name in ["missing", "lost", "reordered", "duplicates", "too_old", "beyond"] {
            unknown.insert(name, NO_NUMBERS);
        }
    } else if wanted.cut.flow.is_some() {
        unknown.insert("missing", ONE_FLOW);
        unknown.insert("displacement", ONE_FLOW);
        unknown.insert("lost", ONE_FLOW);
    } else if whole.order.missing(wanted.cut.is_whole()) >= TOO_MANY {
        unknown.insert("missing", WRAPPED);
        unknown.insert("lost", WRAPPED);
    } else if not_kept > 0 {
        unknown.insert("lost", NOT_KEPT);
    }
    if wanted.by_flow && wanted.has_latency() && whole.figures.flows.has_too_many() {
        unknown.insert("percentiles of smaller flows", OF_LARGEST);
    }
    for (name, bit) in [("bytes", LACKS_PAYLOAD), ("flows", LACKS_FLOW)] {
        if !about.has(bit) {
            unknown.insert(name, "the file does not tell it");
        }
    }
    unknown.into_iter().map(|(name, why)| (name, why.to_owned())).collect()
}

/// What is printed of a file that was read.
#[must_use]
pub fn report(
    path: &Path,
    about: &About,
    whole: &Whole,
    place: Place,
    asked: &[Asked],
) -> FileReport {
    let (wanted, counts, order) = (whole.wanted, whole.figures.counts, &whole.order);
    let unknown = unknown(about, whole, place.not_kept);
    let records = about.layout == Layout::Records;
    let has_latency = no_latency(whole).is_none();
    let one_flow = wanted.cut.flow.is_some();
    let missing = (wanted.numbered && !one_flow)
        .then(|| order.missing(wanted.cut.is_whole()))
        .filter(|&missing| missing < TOO_MANY);
    let lost = missing.filter(|_| place.not_kept == 0);
    let first_ns = whole.first.map(|first| first.received_ns);
    let (seconds, rate) = rate(whole.packets, first_ns, whole.latest_ns);
    let numbered = |count| wanted.numbered.then_some(count);
    let stamps = records.then_some(counts.not_by_kernel);
    let mut troubles = place.troubles;
    if counts.bad_times > 0 {
        troubles.push(format!(
            "packets without a valid time: {}; it is not a number, negative, or beyond 2^62 ns; \
             they are left out",
            counts.bad_times
        ));
    }
    FileReport {
        file: path.display().to_string(),
        format: match about.layout {
            Layout::Records => "records",
            Layout::Timestamps => "timestamps",
            Layout::Pairs => "pairs",
        },
        troubles,
        received: counts.received,
        packets: whole.packets,
        bytes: about.has(LACKS_PAYLOAD).then_some(counts.bytes),
        duplicates: numbered(counts.duplicates),
        too_old: numbered(counts.too_old),
        beyond: numbered(counts.beyond),
        other_transmission: records.then_some(counts.other_transmission),
        foreign: records.then_some(counts.foreign),
        not_by_kernel: stamps,
        bad_times: counts.bad_times,
        not_kept: place.not_kept,
        missing,
        lost,
        lost_share: lost.and_then(|lost| share(lost, lost.saturating_add(order.distinct()))),
        reordered: wanted.numbered.then(|| Reordered {
            count: order.reordered(),
            share: share(order.reordered(), order.distinct()),
            extent_packets: order.extents().report(),
            at_least: order.at_least(),
            density: (!one_flow).then(|| whole.density.report()),
        }),
        first_ns,
        latest_ns: whole.latest_ns,
        seconds,
        rate,
        latency_ns: has_latency.then(|| whole.figures.latency.report()),
        latency_of: has_latency.then(|| latency_of(about)),
        jitter_ns: wanted.clocks.sent.then(|| whole.figures.jitter.report()),
        inter_arrival_ns: whole.figures.inter_arrival.report(),
        late: has_latency.then(|| {
            let both = whole.summaries.iter().zip(asked);
            let report = |(summary, asked): (&Summary, &Asked)| {
                summary.report(*asked, whole.packets, wanted.numbered)
            };
            both.map(report).collect()
        }),
        flows: (wanted.by_flow && about.has(LACKS_FLOW)).then(|| {
            let flows = whole.figures.flows.with_packets();
            flows.map(|(number, flow)| FlowReport::of(number, flow)).collect()
        }),
        over_time: whole.figures.bins.report(CameReport::of),
        unknown,
    }
}

fn latency_of(about: &About) -> &'static str {
    if about.header.is_some_and(|header| header.round_trip) { "round trip" } else { "one way" }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
