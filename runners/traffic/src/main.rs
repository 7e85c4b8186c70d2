// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line of `skblab-traffic`.
//!
//! Exit code 0: the report is complete; lost or refused packets are in it, for the caller to judge.
//! 1: the rate was not kept, and --strict-rate asks for it; or not all records of packets could be
//! written. 2: bad usage, or a socket, a file, a priority or a CPU could not be had.
#![allow(clippy::doc_markdown, reason = "clap prints these comments as help, backticks and all")]

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use skblab_traffic::clock::realtime_ns;
use skblab_traffic::generator::{GENERATORS, Named, Unit};
use skblab_traffic::process::{self, Process};
use skblab_traffic::recorder::Recorder;
use skblab_traffic::report::{RecordReport, SendReport};
use skblab_traffic::{header, receive, send};

/// A rate that is off by more is warned of, per cent.
const OFF_PERCENT: f64 = 0.1;

/// Send and receive UDP packets, and account for every one. Prints one JSON report.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    process: ProcessArgs,
}

/// How it runs, whatever it does.
#[derive(Args)]
struct ProcessArgs {
    /// Run in real time, with all memory locked: fifo:PRIORITY or rr:PRIORITY, such as fifo:50
    #[arg(long, global = true, value_name = "POLICY:PRIORITY", value_parser = process::realtime,
          help_heading = "How it runs")]
    realtime: Option<(process::Policy, u8)>,
    /// Run on this CPU alone
    #[arg(long, global = true, value_name = "NUMBER", help_heading = "How it runs")]
    cpu: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Send numbered, stamped packets at a rate, or at times of a generator
    #[command(after_help = generators())]
    Send(SendArgs),
    /// Count received, lost, repeated and reordered packets
    ///
    /// Prints "ready" on stderr once bound.
    Receive(ReceiveArgs),
}

#[derive(Args)]
struct SendArgs {
    /// Destination, e.g. 198.18.0.2:5000 or [2001:2::2]:5000
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Packets to send [default: as many as fit in --seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// UDP payload of each packet, or a generator of sizes [default: 16, the smallest]
    #[arg(long, value_name = "BYTES|GENERATOR", conflicts_with = "frame")]
    size: Option<String>,
    /// Ethernet frame of each packet with checksum, as RFC 2544 counts (64 to 1518), or a generator
    #[arg(long, value_name = "BYTES|GENERATOR")]
    frame: Option<String>,
    /// Packets per second; 0 is as fast as possible
    #[arg(long, value_name = "PPS", default_value_t = 0)]
    rate: u32,
    /// Time between packets, such as 1ms, or a generator of times
    #[arg(long, value_name = "TIME|GENERATOR", conflicts_with = "rate")]
    interval: Option<String>,
    /// What random sizes and times begin with: the same seed, the same sizes and times
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Give the kernel up to N packets of a flow at once, if so many are due; each is stamped before
    /// the first of them leaves
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Give each batch as one piece that the kernel cuts into packets of one size (UDP_SEGMENT)
    #[arg(long, requires = "batch")]
    segment: bool,
    /// Exit with 1 if the rate that was reached is off by more than so many per cent
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "0.1",
          value_parser = percent)]
    strict_rate: Option<f64>,
    /// Source ports, used in turn, each for a whole batch
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// First source port; 0 lets the kernel choose
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    source_port: u16,
    /// Longest time to send
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    seconds: Duration,
    /// Watch the clock for the last part of each wait: exact, but keeps the CPU busy
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    spin: Duration,
    /// Count packets that leave later than this after they were due
    #[arg(long, value_name = "SECONDS", default_value = "0.0001", value_parser = seconds)]
    late: Duration,
    /// Number of this transmission in each header [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    transmission: Option<u16>,
}

#[derive(Args)]
struct ReceiveArgs {
    /// Address and port to listen on, e.g. 0.0.0.0:5000 or [::]:5000
    #[arg(long, value_name = "ADDR:PORT")]
    bind: SocketAddr,
    /// Packets expected; receiving ends when all are there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    expect: Option<u64>,
    /// Count only packets of this transmission [default: that of the first packet]
    #[arg(long, value_name = "NUMBER")]
    transmission: Option<u16>,
    /// Stop when nothing came for so long after the first packet, in time in which it ran
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    idle: Duration,
    /// Wait so long for duplicates after the last expected packet
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    linger: Duration,
    /// Longest time to receive
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    seconds: Duration,
    /// Receive buffer; above net.core.rmem_max this needs CAP_NET_ADMIN
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    rcvbuf: Option<u32>,
    /// Write a record of each packet to this file, anew if it is there
    ///
    /// results-schema/packets.md has its format. Exit code 1 says that not all could be written.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Report how far times between packets are from this, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<f64>,
    /// Report one-way delays: sender and receiver run on one machine, by one clock
    #[arg(long)]
    same_clock: bool,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return complain(&error),
        Err(help) => help.exit(),
    };
    match run(&cli) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("skblab-traffic: {}", one_line(&message));
            ExitCode::from(2)
        }
    }
}

/// Say in one line what is wrong with the command line.
fn complain(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what = lines.next().unwrap_or_default().trim_start_matches("error: ");
    // What is missing stands in the lines below.
    let more = if what.ends_with(':') { lines.next().unwrap_or_default() } else { "" };
    eprintln!("skblab-traffic: {}; see --help", one_line(&format!("{what} {more}")));
    ExitCode::from(2)
}

/// What a user gave may have lines of its own.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Do the work and print its report.
fn run(cli: &Cli) -> Result<ExitCode, String> {
    let asked = process::Plan { realtime: cli.process.realtime, cpu: cli.process.cpu };
    let process = Process::set_up(asked)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    match &cli.command {
        Command::Send(args) => {
            let report = send::run(send_plan(args)?, &stop).map_err(|error| {
                format!("cannot open a socket to {}: {}", args.to, describe(&error))
            })?;
            print(&report, &process)?;
            Ok(kept(&report, args.strict_rate))
        }
        Command::Receive(args) => receive(args, &stop, &process),
    }
}

/// Receive and print the report.
fn receive(args: &ReceiveArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let plan = receive_plan(args);
    let failed =
        |error: io::Error| format!("cannot receive on {}: {}", plan.bind, describe(&error));
    let mut receiver = receive::Receiver::bind(&plan, stop).map_err(failed)?;
    if let Some(path) = &args.record {
        let recorder = Recorder::create(path)
            .map_err(|error| format!("cannot write records to {}: {error}", path.display()))?;
        receiver = receiver.record(recorder);
    }
    eprintln!("ready");
    let report = receiver.run().map_err(failed)?;
    print(&report, process)?;
    let Some(trouble) = report.record.as_ref().and_then(record_trouble) else {
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("skblab-traffic: {trouble}");
    Ok(ExitCode::FAILURE)
}

/// What to say of records that are not in the file, if any are not.
fn record_trouble(record: &RecordReport) -> Option<String> {
    let RecordReport { file, kept, lost, error, .. } = record;
    match error {
        Some(error) => Some(format!(
            "cannot write records to {file}: {error}; {kept} are in it and can be read, {lost} are \
             not"
        )),
        None if *lost > 0 => Some(format!(
            "{file} was written too slowly: {kept} records are in it, {lost} are not; record to a \
             faster disk or to memory (/dev/shm)"
        )),
        None => None,
    }
}

/// Warn of a rate that was not kept; 1 if it was to be.
fn kept(report: &SendReport, strict: Option<f64>) -> ExitCode {
    let Some(planned) = report.rate_planned else { return ExitCode::SUCCESS };
    let reached = report.rate_reached.unwrap_or(0.0);
    let off = (reached / planned - 1.0) * 100.0;
    if off.abs() <= strict.unwrap_or(OFF_PERCENT) {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "skblab-traffic: {reached:.1} packets a second were sent of {planned:.1} ({off:+.2} %)"
    );
    if strict.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What generators there are, for the help.
fn generators() -> String {
    let lines = GENERATORS
        .iter()
        .map(|kind| format!("  {}:{}\n          {}\n", kind.name, kind.form, kind.about));
    format!(
        "Generators, of times (1.5ms, 20us) or of bytes (512); a value alone is constant:\n{}",
        lines.collect::<String>()
    )
}

fn send_plan(args: &SendArgs) -> Result<send::Plan, String> {
    let overhead = send::frame_overhead(args.to);
    let smallest = u16::try_from(header::LEN).expect("the header is small");
    let (option, text, more_bytes) = match (&args.size, &args.frame) {
        (Some(size), _) => ("--size", size.clone(), 0),
        (None, Some(frame)) => ("--frame", frame.clone(), -i32::from(overhead)),
        (None, None) => ("--size", smallest.to_string(), 0),
    };
    let sizes = Named::parse(&text, Unit::Bytes).map_err(|why| format!("{option} {why}"))?;
    let intervals = args.interval.as_deref().map(|text| Named::parse(text, Unit::Time));
    let intervals = intervals.transpose().map_err(|why| format!("--interval {why}"))?;
    // One size is meant as it is; of many, what is too small for the header gets its size.
    let one = sizes.generator.constant().map(|size| size + f64::from(more_bytes));
    if args.segment && one.is_none() {
        return Err(format!("--segment: all packets have one size then; expected {option} BYTES"));
    }
    if one.is_some_and(|bytes| bytes < smallest.into()) {
        return Err(format!(
            "{option} {text}: the payload must hold the {smallest}-byte header: use --size \
             {smallest} or --frame {} or more",
            smallest + overhead
        ));
    }
    let most = send::most_bytes(args.to);
    if one.is_some_and(|bytes| bytes > most.into()) {
        return Err(format!(
            "{option} {text}: a packet carries a UDP payload of at most {most} bytes, a frame of {}",
            u32::from(most) + u32::from(overhead)
        ));
    }
    if args.strict_rate.is_some() && args.rate == 0 && intervals.is_none() {
        return Err("--strict-rate: there is no rate to be kept; give --rate or --interval".into());
    }
    if args.source_port.checked_add(args.flows - 1).is_none() {
        return Err(format!(
            "--source-port {} leaves no room for {} flows below port 65536",
            args.source_port, args.flows
        ));
    }
    Ok(send::Plan {
        to: args.to,
        count: args.count,
        sizes,
        more_bytes,
        rate: args.rate,
        intervals,
        seed: args.seed,
        batch: args.batch.into(),
        segment: args.segment,
        flows: args.flows,
        source_port: args.source_port,
        limit: args.seconds,
        spin: args.spin,
        late: args.late,
        transmission: args.transmission.unwrap_or_else(transmission_from_clock),
    })
}

fn receive_plan(args: &ReceiveArgs) -> receive::Plan {
    receive::Plan {
        bind: args.bind,
        expect: args.expect,
        transmission: args.transmission,
        idle: args.idle,
        linger: args.linger,
        limit: args.seconds,
        rcvbuf: args.rcvbuf,
        same_clock: args.same_clock,
        interval_ns: args.interval,
    }
}

/// A number that differs between transmissions started more than a few microseconds apart.
fn transmission_from_clock() -> u16 {
    let [.., high, low, _] = (realtime_ns() >> 4).to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// One time, in nanoseconds.
fn interval(text: &str) -> Result<f64, String> {
    let named = Named::parse(text, Unit::Time)?;
    named.generator.constant().ok_or_else(|| "expected one time, such as 1ms".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected per cent from 0, such as 0.1".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected seconds, e.g. 2 or 0.5".to_owned())
}

/// The kernel's words, and how to mend the usual cases.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken: choose another".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no interface here has this address".to_owned(),
        _ => error.to_string(),
    }
}

/// What is printed: a report, and how the process ran.
#[derive(Serialize)]
struct Printed<'a, T> {
    #[serde(flatten)]
    report: &'a T,
    process: process::Report,
}

fn print(report: &impl Serialize, process: &Process) -> Result<(), String> {
    let printed = Printed { report, process: process.report()? };
    let text = serde_json::to_string(&printed).map_err(|error| error.to_string())?;
    writeln!(io::stdout().lock(), "{text}")
        .map_err(|error| format!("cannot write the report: {error}"))
}
