// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line of `skblab-traffic`.
//!
//! Exit code 0: the report is complete; lost or refused packets are in it, for the caller to judge.
//! 2: bad usage, or a socket could not be had.
#![allow(clippy::doc_markdown, reason = "clap prints these comments as help, backticks and all")]

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use skblab_traffic::clock::realtime_ns;
use skblab_traffic::{header, receive, send};

/// Send and receive UDP packets, and account for every one. Prints one JSON report.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send numbered, stamped packets at a steady rate
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
    /// UDP payload of each packet [default: 16, the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "frame")]
    size: Option<u16>,
    /// Ethernet frame of each packet with checksum, as RFC 2544 counts (64 to 1518)
    #[arg(long, value_name = "BYTES")]
    frame: Option<u16>,
    /// Packets per second; 0 is as fast as possible
    #[arg(long, value_name = "PPS", default_value_t = 0)]
    rate: u32,
    /// Source ports, used in turn
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
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("skblab-traffic: {message}");
            ExitCode::from(2)
        }
    }
}

/// Do the work and print its report.
fn run(command: &Command) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    match command {
        Command::Send(args) => {
            let plan = send_plan(args)?;
            let report = send::run(&plan, &stop).map_err(|error| {
                format!("cannot open a socket to {}: {}", plan.to, describe(&error))
            })?;
            print(&report)
        }
        Command::Receive(args) => {
            let plan = receive_plan(args);
            let failed =
                |error: io::Error| format!("cannot receive on {}: {}", plan.bind, describe(&error));
            let receiver = receive::Receiver::bind(&plan, &stop).map_err(failed)?;
            eprintln!("ready");
            let report = receiver.run().map_err(failed)?;
            print(&report)
        }
    }
}

fn send_plan(args: &SendArgs) -> Result<send::Plan, String> {
    let overhead = send::frame_overhead(args.to);
    let smallest = u16::try_from(header::LEN).expect("the header is small");
    let payload_bytes = match (args.size, args.frame) {
        (Some(size), _) => size,
        (None, Some(frame)) => frame.saturating_sub(overhead),
        (None, None) => smallest,
    };
    if payload_bytes < smallest {
        return Err(format!(
            "the payload must hold the {smallest}-byte header: use --size {smallest} or \
             --frame {} or more",
            smallest + overhead
        ));
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
        payload_bytes,
        rate: args.rate,
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
    }
}

/// A number that differs between transmissions started more than a few microseconds apart.
fn transmission_from_clock() -> u16 {
    let [.., high, low, _] = (realtime_ns() >> 4).to_be_bytes();
    u16::from_be_bytes([high, low])
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

fn print(report: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(report).map_err(|error| error.to_string())?;
    writeln!(io::stdout().lock(), "{text}")
        .map_err(|error| format!("cannot write the report: {error}"))
}
