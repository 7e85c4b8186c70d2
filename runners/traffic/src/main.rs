// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line of `skblab-traffic`.
//!
//! Exit code 0: the report is complete; lost or refused packets are in it, for the caller to judge.
//! 1: the rate was not kept, and --strict-rate asks for it; or not all records of packets could be
//! written. 2: bad usage, or a socket, a device, a file, a priority or a CPU could not be had.
#![allow(clippy::doc_markdown, reason = "clap prints these comments as help, backticks and all")]

mod cli;

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
use skblab_traffic::process::{self, Process};
use skblab_traffic::recorder::Recorder;
use skblab_traffic::report::{RecordReport, SendReport, TxtimeReport};
use skblab_traffic::socket::describe;
use skblab_traffic::timing::{Clocks, Line};
use skblab_traffic::{receive, send};

use cli::send::SendArgs;
use cli::{round_trips, seconds, tcp};

/// A rate that is off by more is warned of, per cent.
const OFF_PERCENT: f64 = 0.1;

/// Send and receive UDP packets or TCP, and account for all of it. Prints one JSON report.
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
    #[command(after_help = cli::send::generators())]
    Send(Box<SendArgs>),
    /// Count received, lost, repeated and reordered packets
    ///
    /// Prints "ready" on stderr once bound.
    Receive(ReceiveArgs),
    /// Send each packet back to where it came from
    ///
    /// Prints "ready" on stderr once bound.
    Echo(round_trips::EchoArgs),
    /// Send packets to an echo, and say how long each took there and back
    Rtt(round_trips::RttArgs),
    /// Say how far the clock of an echo's machine is ahead of this machine's, by probes
    Clock(round_trips::ClockArgs),
    /// Say how late this machine wakes a task that sleeps, as cyclictest does; no packet is sent
    Wakeup(round_trips::WakeupArgs),
    /// Answer requests over TCP, and take streams: the server of tcp-rr, tcp-crr and tcp-stream
    ///
    /// Prints "ready" on stderr once it listens.
    TcpServe(tcp::ServeArgs),
    /// Send requests over TCP connections that are kept, and say how long each answer took
    #[command(after_help = tcp::RR_HELP)]
    TcpRr(tcp::RrArgs),
    /// Make a TCP connection for each request: connections per second, and how long they took
    #[command(after_help = tcp::CRR_HELP)]
    TcpCrr(tcp::CrrArgs),
    /// Send as much as TCP connections take, or bits at a rate
    TcpStream(tcp::StreamArgs),
}

#[derive(Args)]
struct ReceiveArgs {
    /// Address and port to listen on, e.g. 0.0.0.0:5000 or [::]:5000
    #[arg(long, value_name = "ADDR:PORT")]
    bind: SocketAddr,
    /// Count the packets among this device's frames, before the stack has them; needs CAP_NET_RAW
    ///
    /// They need not be for this machine, and no checksum is verified. --bind says which: 0.0.0.0
    /// and [::] stand for all of their family.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Receive by AF_XDP, the way that takes the most packets a second; also needs
    /// CAP_NET_ADMIN and CAP_BPF
    ///
    /// Nobody else gets packets to --bind meanwhile, and all others pass.
    #[arg(long, requires = "device")]
    xdp: bool,
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
    /// Receive buffer; above net.core.rmem_max this needs CAP_NET_ADMIN. With --device the memory for
    /// frames [default: 16 MiB]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    rcvbuf: Option<u32>,
    /// Write a record of each packet to this file, anew if it is there
    ///
    /// results-schema/packets.md has its format. Exit code 1 says that not all could be written.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Report how far times between packets are from this, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = cli::interval)]
    interval: Option<f64>,
    /// Report one-way delays: sender and receiver run on one machine, by one clock
    #[arg(long)]
    same_clock: bool,
    /// Report one-way delays: how far this machine's clock is ahead of the sender's, negative if behind
    ///
    /// It is `ahead_ns` of `clock`, which runs on the sender and asks an `echo` on this machine.
    #[arg(
        long,
        value_name = "NANOSECONDS",
        allow_negative_numbers = true,
        conflicts_with = "same_clock"
    )]
    clock_ahead: Option<i64>,
    /// This machine's clock gains so much on the sender's with each second, negative if it loses
    #[arg(
        long,
        value_name = "NANOSECONDS",
        allow_negative_numbers = true,
        default_value_t = 0,
        requires = "clock_ahead"
    )]
    clock_drift: i64,
    /// When it was so far ahead, for a drift: `there_ns` of `clock` [default: when receiving begins]
    #[arg(long, value_name = "NANOSECONDS", requires = "clock_ahead")]
    clock_at: Option<u64>,
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
    let more = lines.take_while(|line| what.ends_with(':') && line.starts_with('-'));
    let more = more.collect::<Vec<_>>().join(" ");
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
            let report = send::run(args.plan()?, &stop)?;
            print(&report, &process)?;
            if let Some(trouble) = report.txtime.as_ref().and_then(times_trouble) {
                eprintln!("skblab-traffic: {trouble}");
            }
            Ok(kept(&report, args.strict_rate))
        }
        Command::Receive(args) => receive(args, &stop, &process),
        Command::Echo(args) => round_trips::echo(args, &stop, &process),
        Command::Rtt(args) => round_trips::rtt(args, &stop, &process),
        Command::Clock(args) => round_trips::clock(args, &stop, &process),
        Command::Wakeup(args) => round_trips::wakeup(args, &stop, &process),
        Command::TcpServe(args) => tcp::serve(args, &stop, &process),
        Command::TcpRr(args) => tcp::rr(args, &stop, &process),
        Command::TcpCrr(args) => tcp::crr(args, &stop, &process),
        Command::TcpStream(args) => tcp::stream(args, &stop, &process),
    }
}

/// Receive and print the report.
fn receive(args: &ReceiveArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let plan = receive_plan(args);
    let failed =
        |error: io::Error| format!("cannot receive on {}: {}", plan.bind, describe(&error));
    let mut receiver = receive::Receiver::bind(&plan, stop)?;
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

/// What to say of packets whose times could not be kept, if there were any.
fn times_trouble(report: &TxtimeReport) -> Option<String> {
    let TxtimeReport { by, lead_ns, missed, invalid, .. } = report;
    (missed + invalid > 0).then(|| {
        format!(
            "{by} dropped {missed} packets that missed their times and {invalid} that it got too \
             late: give a longer --lead than {} us{}",
            lead_ns / 1000,
            if *missed > 0 { ", or etf a longer delta" } else { "" }
        )
    })
}

/// Warn of a rate that was not kept; 1 if it was to be.
fn kept(report: &SendReport, strict: Option<f64>) -> ExitCode {
    let Some(planned) = report.packets.pace.rate_planned else { return ExitCode::SUCCESS };
    let reached = report.packets.pace.rate_reached.unwrap_or(0.0);
    let off = (reached / planned - 1.0) * 100.0;
    if off.abs() <= strict.unwrap_or(OFF_PERCENT) {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "skblab-traffic: {reached:.1} packets a second were sent of {planned:.1} ({off:+.2} %)"
    );
    if strict.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn receive_plan(args: &ReceiveArgs) -> receive::Plan {
    receive::Plan {
        bind: args.bind,
        device: args.device.clone(),
        xdp: args.xdp,
        expect: args.expect,
        transmission: args.transmission,
        idle: args.idle,
        linger: args.linger,
        limit: args.seconds,
        rcvbuf: args.rcvbuf,
        clocks: clocks(args),
        interval_ns: args.interval,
    }
}

fn clocks(args: &ReceiveArgs) -> Clocks {
    match args.clock_ahead {
        Some(ahead_ns) => Clocks::Ahead(Line {
            ahead_ns,
            at_ns: args.clock_at.unwrap_or_else(realtime_ns),
            drift_ppb: args.clock_drift,
        }),
        None if args.same_clock => Clocks::One,
        None => Clocks::Apart,
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
