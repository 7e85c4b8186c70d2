// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line of `echo`, `rtt`, `clock` and `wakeup`.
#![allow(clippy::doc_markdown, reason = "clap prints these comments as help, backticks and all")]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use skblab_traffic::generator::{Named, Unit};
use skblab_traffic::process::Process;
use skblab_traffic::recorder::Recorder;
use skblab_traffic::{clock_offset, echo, header, round_trip, send, wakeup};

use crate::cli::destination;
use crate::cli::send::transmission_from_clock;
use crate::{describe, print, record_trouble, seconds};

#[derive(Args)]
pub struct EchoArgs {
    /// Address and port to listen on, e.g. 0.0.0.0:5000 or [::]:5000
    #[arg(long, value_name = "ADDR:PORT")]
    bind: SocketAddr,
    /// Longest time [default: until SIGINT or SIGTERM]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Receive buffer; above net.core.rmem_max this needs CAP_NET_ADMIN
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    rcvbuf: Option<u32>,
}

#[derive(Args)]
pub struct RttArgs {
    /// Address and port of the echo, e.g. 198.18.0.2:5000 or [2001:2::2]:5000
    #[arg(long, value_name = "ADDR:PORT", value_parser = destination)]
    to: SocketAddr,
    /// Packets to send [default: as many as fit in --seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// UDP payload of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(i64::try_from(header::LEN).unwrap_or(16)..))]
    size: u16,
    /// Packets per second
    #[arg(long, value_name = "PPS", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Time between packets, such as 1ms, or a generator of times (see `send --help`)
    #[arg(long, value_name = "TIME|GENERATOR", conflicts_with = "rate")]
    interval: Option<String>,
    /// What random times begin with
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Longest time to send
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Wait so long for packets after the last was sent
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    wait: Duration,
    /// Watch the clock for the last part of each wait: exact, but keeps the CPU busy
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    spin: Duration,
    /// Count packets that leave later than this after they were due
    #[arg(long, value_name = "SECONDS", default_value = "0.0001", value_parser = seconds)]
    late: Duration,
    /// Receive buffer; above net.core.rmem_max this needs CAP_NET_ADMIN
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    rcvbuf: Option<u32>,
    /// Write a record of each packet that comes back to this file, anew if it is there
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Number of this transmission in each header [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    transmission: Option<u16>,
}

#[derive(Args)]
pub struct ClockArgs {
    /// Address and port of the echo, e.g. 198.18.0.2:5000 or [2001:2::2]:5000
    #[arg(long, value_name = "ADDR:PORT", value_parser = destination)]
    to: SocketAddr,
    /// Probes to send
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Least time from one to the next
    #[arg(long, value_name = "SECONDS", default_value = "0.001", value_parser = seconds)]
    gap: Duration,
    /// Longest time to wait for one to come back
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    wait: Duration,
}

#[derive(Args)]
pub struct WakeupArgs {
    /// Sleeps per second
    #[arg(long, value_name = "HZ", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// How long to do it
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
}

/// Send back what comes, and print the report.
pub fn echo(args: &EchoArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let plan = echo::Plan { bind: args.bind, limit: args.seconds, rcvbuf: args.rcvbuf };
    let failed = |error: io::Error| format!("cannot echo on {}: {}", plan.bind, describe(&error));
    let echo = echo::Echo::bind(&plan, stop).map_err(failed)?;
    eprintln!("ready");
    print(&echo.run().map_err(failed)?, process)?;
    Ok(ExitCode::SUCCESS)
}

/// Send to an echo and receive, and print the report.
pub fn rtt(args: &RttArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let most = send::most_bytes(args.to);
    if args.size > most {
        return Err(format!("--size {}: a packet carries at most {most} bytes", args.size));
    }
    let intervals = args.interval.as_deref().map(|text| Named::parse(text, Unit::Time));
    let recorder = args.record.as_ref().map(|path| {
        Recorder::create(path)
            .map_err(|error| format!("cannot write records to {}: {error}", path.display()))
    });
    let plan = round_trip::Plan {
        to: args.to,
        count: args.count,
        bytes: args.size,
        rate: args.rate,
        seed: args.seed,
        limit: args.seconds,
        wait: args.wait,
        spin: args.spin,
        late: args.late,
        rcvbuf: args.rcvbuf,
        transmission: args.transmission.unwrap_or_else(transmission_from_clock),
    };
    let intervals = intervals.transpose().map_err(|why| format!("--interval {why}"))?;
    let report = round_trip::run(&plan, intervals, recorder.transpose()?, stop)
        .map_err(|error| format!("no round trips to {}: {}", args.to, describe(&error)))?;
    print(&report, process)?;
    if let Some(trouble) = report.record.as_ref().and_then(record_trouble) {
        eprintln!("skblab-traffic: {trouble}");
        return Ok(ExitCode::FAILURE);
    }
    if report.packets.sent > 0 && report.distinct == 0 {
        eprintln!("skblab-traffic: nothing came back from {}: does an echo run there?", args.to);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Send probes to an echo, and print by how much its clock is ahead.
pub fn clock(args: &ClockArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    if args.wait.is_zero() {
        return Err("--wait 0: nothing comes back at once; expected more".to_owned());
    }
    let plan = clock_offset::Plan {
        to: args.to,
        count: args.count,
        gap: args.gap,
        wait: args.wait,
        transmission: transmission_from_clock(),
    };
    let report = clock_offset::run(&plan, stop)
        .map_err(|error| format!("no probes to {}: {}", args.to, describe(&error)))?;
    print(&report, process)?;
    let Some(why) = report.unknown else { return Ok(ExitCode::SUCCESS) };
    eprintln!("skblab-traffic: what the clocks differ by is not known: {why} ({})", args.to);
    Ok(ExitCode::FAILURE)
}

/// Sleep and look how late it was, and print the report.
pub fn wakeup(args: &WakeupArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let plan = wakeup::Plan { rate: args.rate, limit: args.seconds };
    print(&wakeup::run(&plan, stop), process)?;
    Ok(ExitCode::SUCCESS)
}
