// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line of `tcp-serve`, `tcp-rr`, `tcp-crr` and `tcp-stream`.
#![allow(clippy::doc_markdown, reason = "clap prints these comments as help, backticks and all")]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use skblab_traffic::generator::{Named, Unit};
use skblab_traffic::pace::Rate;
use skblab_traffic::process::Process;
use skblab_traffic::tcp::message::{LEN, MOST};
use skblab_traffic::tcp::report::{Ended, ErrorsReport, TallyReport};
use skblab_traffic::tcp::sources::Sources;
use skblab_traffic::tcp::{exchange, server, stream};

use crate::cli::send::percent;
use crate::{OFF_PERCENT, print, seconds};

/// Connections of a client or a server, at most.
const MOST_FLOWS: i64 = 1 << 20;
/// Connections of streams, of which each has a row in the report.
const MOST_STREAMS: i64 = 1024;
/// Bytes of one write of a stream, at most.
const MOST_WRITE: i64 = 1 << 20;

pub const RR_HELP: &str = "\
Connections are made before the first request is due. One that fails is made again after 10 ms.";
pub const CRR_HELP: &str = "\
Ports: a connection takes one, of net.ipv4.ip_local_port_range (28 232 by default) for each address of
--from and of --to. With --close client it is taken for a minute after its end (TIME_WAIT), so some
470 connections a second are the most from one address. With --close server the server waits instead,
and the port is free; with --close reset neither end waits. A connection that finds no port counts
among the errors of connecting, as EADDRNOTAVAIL.
Without a rate, a slot whose connection failed rests for 10 ms.";

#[derive(Args)]
pub struct ServeArgs {
    /// Address and port to listen on, e.g. 0.0.0.0:5000 or [::]:5000
    #[arg(long, value_name = "ADDR:PORT")]
    bind: SocketAddr,
    /// Longest time [default: until SIGINT or SIGTERM]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Connections at once; more wait until one ends
    #[arg(long, value_name = "N", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(1..=MOST_FLOWS))]
    connections: u32,
    /// Give up a connection on which nothing comes or goes for so long
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    idle: Duration,
}

/// What all clients have.
#[derive(Args)]
struct ClientArgs {
    /// Address and port of tcp-serve, e.g. 198.18.0.2:5000 or [2001:db8::2]:5000
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Address to connect from, or two for all between them, used in turn
    #[arg(long, value_name = "ADDR|FIRST-LAST")]
    from: Option<Sources>,
    /// Exit with 1 if the rate that was reached is off by more than so many per cent
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "0.1",
          value_parser = percent)]
    strict_rate: Option<f64>,
    /// Longest time to send
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Longest time for a connection, for an answer, and for the other end to close; what takes longer
    /// has failed, as ETIMEDOUT
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Watch the clock for the last part of each wait: exact, but keeps the CPU busy
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    spin: Duration,
    /// Count what begins later than this after it was due
    #[arg(long, value_name = "SECONDS", default_value = "0.0001", value_parser = seconds)]
    late: Duration,
}

impl ClientArgs {
    /// Check what clap cannot.
    fn check(&self, paced: bool) -> Result<(), String> {
        let family = |ipv4| if ipv4 { "IPv4" } else { "IPv6" };
        if let Some(from) = self.from.filter(|from| from.is_ipv4() != self.to.is_ipv4()) {
            let (found, expected) = (family(from.is_ipv4()), family(self.to.is_ipv4()));
            return Err(format!("--from {from} is of {found}, --to {} of {expected}", self.to));
        }
        if self.strict_rate.is_some() && !paced {
            return Err("--strict-rate: there is no rate to be kept; give --rate".into());
        }
        Ok(())
    }
}

/// What requests have.
#[derive(Args)]
struct RequestArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Requests to send [default: as many as fit in --seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Connections at once, at most
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=MOST_FLOWS))]
    flows: u32,
    /// Bytes of each request; 16 are its header
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = message_size)]
    request: u32,
    /// Bytes of each answer; 16 are its header
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = message_size)]
    response: u32,
    /// Requests per second of all connections, such as 10000 or 0.5; 0 is as fast as possible
    #[arg(long, value_name = "RATE", default_value = "0")]
    rate: Rate,
    /// Time between requests, such as 1ms, or a generator of times (see `send --help`)
    #[arg(long, value_name = "TIME|GENERATOR", conflicts_with = "rate")]
    interval: Option<String>,
    /// What random times begin with
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
pub struct RrArgs {
    #[command(flatten)]
    requests: RequestArgs,
}

#[derive(Args)]
pub struct CrrArgs {
    #[command(flatten)]
    requests: RequestArgs,
    /// Who closes a connection after its answer
    #[arg(long, value_enum, default_value_t = Close::Server)]
    close: Close,
}

#[derive(Args)]
pub struct StreamArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Writes to send [default: as many as fit in --seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=MOST_STREAMS))]
    flows: u32,
    /// Bytes of each write
    #[arg(long, value_name = "BYTES", default_value_t = 128 << 10,
          value_parser = clap::value_parser!(u32).range(1..=MOST_WRITE))]
    size: u32,
    /// Bits per second of all connections, such as 500k, 10M or 1.5G; 0 is as fast as possible
    #[arg(long, value_name = "BITS", default_value = "0", value_parser = bits)]
    rate: u64,
    /// Have the server send, as fast as possible, for --seconds
    #[arg(long, conflicts_with_all = ["rate", "count", "size"])]
    reverse: bool,
}

/// As `exchange::Close`, with words for the help.
#[derive(Clone, Copy, ValueEnum)]
enum Close {
    /// The server: its end waits a minute, and the client's port is free
    Server,
    /// The client: its port is taken for a minute more
    Client,
    /// The client by a reset: neither end waits
    Reset,
}

/// Serve, and print the report.
pub fn serve(args: &ServeArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let plan = server::Plan {
        bind: args.bind,
        limit: args.seconds,
        connections: args.connections as usize,
        idle: args.idle,
    };
    let server = server::Server::bind(&plan, stop)?;
    eprintln!("ready");
    let report = server.run().map_err(|error| format!("cannot serve on {}: {error}", args.bind))?;
    print(&report, process)?;
    Ok(ExitCode::SUCCESS)
}

/// Ask over connections that are kept, and print the report.
pub fn rr(args: &RrArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    requests(&args.requests, None, stop, process)
}

/// Ask over a connection each, and print the report.
pub fn crr(args: &CrrArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let close = match args.close {
        Close::Server => exchange::Close::Server,
        Close::Client => exchange::Close::Client,
        Close::Reset => exchange::Close::Reset,
    };
    requests(&args.requests, Some(close), stop, process)
}

fn requests(
    args: &RequestArgs,
    close: Option<exchange::Close>,
    stop: &AtomicBool,
    process: &Process,
) -> Result<ExitCode, String> {
    let client = &args.client;
    let intervals = args.interval.as_deref().map(|text| Named::parse(text, Unit::Time));
    let intervals = intervals.transpose().map_err(|why| format!("--interval {why}"))?;
    client.check(intervals.is_some() || !args.rate.is_zero())?;
    let report = exchange::run(
        exchange::Plan {
            to: client.to,
            from: client.from,
            close,
            flows: args.flows as usize,
            count: args.count,
            sizes: (args.request, args.response),
            rate: args.rate,
            intervals,
            seed: args.seed,
            limit: client.seconds,
            timeout: client.timeout,
            spin: client.spin,
            late: client.late,
        },
        stop,
    )?;
    print(&report, process)?;
    if unreachable(client, report.stopped_by, &report.errors) {
        return Ok(ExitCode::FAILURE);
    }
    if failed(&report.errors, report.transactions) {
        return Ok(ExitCode::FAILURE);
    }
    Ok(kept(client, "requests", report.rate_planned, report.rate_reached))
}

/// Send streams, and print the report.
pub fn stream(args: &StreamArgs, stop: &AtomicBool, process: &Process) -> Result<ExitCode, String> {
    let client = &args.client;
    client.check(args.rate > 0)?;
    let report = stream::run(
        stream::Plan {
            to: client.to,
            from: client.from,
            flows: args.flows as usize,
            count: args.count,
            bytes: args.size,
            rate: args.rate,
            reverse: args.reverse,
            limit: client.seconds,
            timeout: client.timeout,
            spin: client.spin,
            late: client.late,
        },
        stop,
    )?;
    print(&report, process)?;
    if unreachable(client, report.stopped_by, &report.errors) {
        return Ok(ExitCode::FAILURE);
    }
    if failed(&report.errors, report.connections) {
        return Ok(ExitCode::FAILURE);
    }
    Ok(kept(client, "bits", report.rate_planned, report.rate_reached))
}

/// Say that no connection came about, if none did.
fn unreachable(client: &ClientArgs, ended: Ended, errors: &ErrorsReport) -> bool {
    if ended != Ended::Unreachable {
        return false;
    }
    let ErrorsReport { connect, request, .. } = errors;
    let why = connect.keys().chain(request.keys()).cloned().collect::<Vec<_>>().join(", ");
    let mend = match why.as_str() {
        "EADDRNOTAVAIL" => match client.from {
            Some(_) => "is there an interface with the addresses of --from?",
            None => "no port is left: give more addresses with --from",
        },
        "ECONNREFUSED" => "does tcp-serve run there?",
        "ETIMEDOUT" | "EHOSTUNREACH" | "ENETUNREACH" => {
            "is there a way there, and does a firewall let it pass?"
        }
        _ => "is it tcp-serve that runs there?",
    };
    eprintln!("skblab-traffic: no connection to {}: {why}; {mend}", client.to);
    true
}

/// Warn of what failed; the report has it all. Whether all did.
fn failed(errors: &ErrorsReport, tally: TallyReport) -> bool {
    let ErrorsReport { connect, request, idle } = errors;
    let all = [("connecting", connect), ("requests", request), ("waiting", idle)];
    let told = all.iter().flat_map(|(when, errors)| {
        errors.iter().map(move |(name, count)| format!("{count} {name} ({when})"))
    });
    let told = told.collect::<Vec<_>>();
    if told.is_empty() {
        return false;
    }
    let mend = if connect.contains_key("EADDRNOTAVAIL") {
        "; no port was left: see --close and --from"
    } else {
        ""
    };
    eprintln!(
        "skblab-traffic: {} of {} failed: {}{mend}",
        tally.failed,
        tally.attempted,
        told.join(", ")
    );
    tally.failed > 0 && tally.completed == 0
}

/// Warn of a rate that was not kept; 1 if it was to be.
fn kept(client: &ClientArgs, what: &str, planned: Option<f64>, reached: Option<f64>) -> ExitCode {
    let Some(planned) = planned else { return ExitCode::SUCCESS };
    let reached = reached.unwrap_or(0.0);
    let off = (reached / planned - 1.0) * 100.0;
    if off.abs() <= client.strict_rate.unwrap_or(OFF_PERCENT) {
        return ExitCode::SUCCESS;
    }
    eprintln!("skblab-traffic: {reached:.1} {what} a second of {planned:.1} ({off:+.2} %)");
    if client.strict_rate.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn message_size(text: &str) -> Result<u32, String> {
    let least = u32::try_from(LEN).unwrap_or(MOST);
    let size = text.parse().ok().filter(|size| (least..=MOST).contains(size));
    size.ok_or_else(|| format!("expected bytes, {least} to {MOST}"))
}

/// Take bits per second, with k, M or G.
fn bits(text: &str) -> Result<u64, String> {
    const MOST_BITS: f64 = 1e13;
    let unit = [('k', 1e3), ('M', 1e6), ('G', 1e9)];
    let found = unit.iter().find_map(|(name, by)| Some((text.strip_suffix(*name)?, *by)));
    let (number, by) = found.unwrap_or((text, 1.0));
    let plain = number.bytes().all(|one| one.is_ascii_digit() || one == b'.');
    let bits = number.parse::<f64>().ok().filter(|_| plain).map(|number| number * by);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and a number that fits"
    )]
    bits.filter(|bits| *bits <= MOST_BITS && (*bits == 0.0 || *bits >= 1.0))
        .map(|bits| bits.round() as u64)
        .ok_or_else(|| "expected bits per second to 10000G, such as 500k, 10M or 1.5G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_units() {
        for (text, expected) in [
            ("0", 0),
            ("1000", 1000),
            ("500k", 500_000),
            ("1.5G", 1_500_000_000),
            ("10M", 10_000_000),
        ] {
            assert_eq!(bits(text), Ok(expected), "{text}");
        }
        for text in ["", "k", "-1", "1e6", "nan", "inf", "0.1", "1T", "10001G", "1 M"] {
            assert!(bits(text).is_err_and(|why| why.contains("such as 500k")), "{text}");
        }
    }

    #[test]
    fn a_message_holds_its_header() {
        assert_eq!((message_size("16"), message_size("16777216")), (Ok(16), Ok(MOST)));
        for text in ["15", "16777217", "x", "-1", ""] {
            assert!(message_size(text).is_err_and(|why| why.contains("16 to 16777216")), "{text}");
        }
    }
}
