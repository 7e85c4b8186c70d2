// SPDX-License-Identifier: GPL-2.0-or-later
//! `skblab-pktstat FILE`: figures of the records of packets, as one JSON document.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::{Parser, ValueEnum};
use skblab_pktstat::columns::Layout;
use skblab_pktstat::source::Refused;
use skblab_pktstat::whole::{Kind, Late, Options, analyse};

/// Kinds of anomalies at once: each has a list for every piece that is being looked at.
const MOST_KINDS: usize = 8;
/// More would wait for the one that reads the slowest piece.
const MOST_THREADS: usize = 8;
const MOST_BINS: u32 = 20_000;

/// Print figures of the records of packets: loss, reordering, latency, jitter, anomalies, over time.
#[derive(Parser)]
#[command(name = "skblab-pktstat", version)]
struct Arguments {
    /// The file.
    file: PathBuf,
    /// What the file is [default: told from its content or name].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// An anomaly: at least N packets in a row, each T late or more; T is 250us, 1.5ms, or x5 for
    /// five times the median. May be given up to eight times.
    #[arg(long, value_name = "N:T", value_parser = kind)]
    late: Vec<Kind>,
    /// Write all anomalies to it, as CSV.
    #[arg(long, value_name = "FILE")]
    anomalies: Option<PathBuf>,
    /// Only these packets of the file, from 0: the last one is not looked at.
    #[arg(long, value_name = "FROM:TO", value_parser = places)]
    packets: Option<Range<u64>>,
    /// Only packets that came in this time, seconds after the first.
    #[arg(long, value_name = "FROM:TO", value_parser = seconds)]
    seconds: Option<Range<i64>>,
    /// Only packets of this flow.
    #[arg(long, value_name = "N")]
    flow: Option<u16>,
    /// Also by flow.
    #[arg(long)]
    by_flow: bool,
    /// Sent and received are of one clock.
    #[arg(long)]
    same_clock: bool,
    /// Bins over time, at most.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST_BINS)))]
    bins: u32,
    /// How many threads look at packets [default: one for each processor, up to 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    threads: Option<u8>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Records,
    Timestamps,
    Pairs,
}

fn kind(text: &str) -> Result<Kind, String> {
    let expected = "expected N:T, such as 2:250us or 2:x5";
    let (least, late) = text.split_once(':').ok_or(expected)?;
    let least = least.parse::<u64>().ok().filter(|&least| least > 0);
    let least = least.ok_or_else(|| format!("{expected}: N is a number from 1 on"))?;
    let number = |text: &str| text.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
    if let Some(times) = late.strip_prefix('x') {
        let times = number(times).ok_or_else(|| format!("{expected}: no number after x"))?;
        return Ok(Kind { least, late: Late::Medians(times) });
    }
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, ns)| Some(number(late.strip_suffix(unit)?)? * ns));
    let late_ns = found.ok_or_else(|| format!("{expected}: T ends in ns, us, ms or s"))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let late_ns = late_ns.ceil() as u64;
    Ok(Kind { least, late: Late::Ns(late_ns) })
}

/// Both ends, either of which may be left out.
fn ends<T: PartialOrd>(
    text: &str,
    all: Range<T>,
    number: impl Fn(&str) -> Option<T>,
) -> Result<Range<T>, String> {
    let expected = "expected FROM:TO, such as 1:10, 1: or :10";
    let (from, to) = text.split_once(':').ok_or(expected)?;
    let one = |text: &str, other: T| {
        if text.is_empty() { Some(other) } else { number(text) }
    };
    let from = one(from, all.start).ok_or(expected)?;
    let to = one(to, all.end).ok_or(expected)?;
    if from < to { Ok(from..to) } else { Err(format!("{expected}: FROM is below TO")) }
}

fn places(text: &str) -> Result<Range<u64>, String> {
    ends(text, 0..u64::MAX, |text| text.parse().ok())
}

fn seconds(text: &str) -> Result<Range<i64>, String> {
    ends(text, i64::MIN..i64::MAX, |text| {
        let seconds = text.parse::<f64>().ok().filter(|it| (0.0..1e9).contains(it))?;
        #[allow(clippy::cast_possible_truncation)]
        Some((seconds * 1e9).round() as i64)
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.late.len() > MOST_KINDS {
        eprintln!("skblab-pktstat: --late: {MOST_KINDS} kinds at most");
        return ExitCode::from(2);
    }
    let processors = || available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let options = Options {
        layout: arguments.format.map(|format| match format {
            Format::Records => Layout::Records,
            Format::Timestamps => Layout::Timestamps,
            Format::Pairs => Layout::Pairs,
        }),
        kinds: arguments.late,
        list: arguments.anomalies,
        places: arguments.packets.unwrap_or(0..u64::MAX),
        after_ns: arguments.seconds.unwrap_or(i64::MIN..i64::MAX),
        flow: arguments.flow,
        by_flow: arguments.by_flow,
        same_clock: arguments.same_clock,
        most_bins: usize::try_from(arguments.bins).unwrap_or(usize::MAX),
        threads: arguments.threads.map_or_else(processors, usize::from),
    };
    match analyse(&arguments.file, &options) {
        Ok(report) => print(&report),
        Err(Refused::Usage(why)) => {
            eprintln!("skblab-pktstat: {why}");
            ExitCode::from(2)
        }
        Err(Refused::Failed(why)) => {
            eprintln!("skblab-pktstat: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print(report: &skblab_pktstat::report::FileReport) -> ExitCode {
    let mut to = std::io::stdout().lock();
    let printed = serde_json::to_writer(&mut to, report).map_err(std::io::Error::from);
    match printed.and_then(|()| writeln!(to)).and_then(|()| to.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("skblab-pktstat: printing: {error}");
            ExitCode::FAILURE
        }
    }
}
