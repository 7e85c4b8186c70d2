// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of `send`, and what they ask for.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use skblab_traffic::clock::realtime_ns;
use skblab_traffic::destinations::Range;
use skblab_traffic::frame::{MOST_VLAN, Mac};
use skblab_traffic::generator::{GENERATORS, Named, Unit};
use skblab_traffic::pace::{Rate, Step};
use skblab_traffic::txtime::{self, Qdisc};
use skblab_traffic::{header, send};

use super::{destination, interval, seconds};

/// The first source port of frames that no kernel chooses one for.
const FIRST_PORT: u16 = 1024;
const MOST_LEAD: Duration = Duration::from_secs(1);

/// Who is to keep the times of packets.
#[derive(Clone, Copy)]
enum Keeper {
    /// The queue discipline that the device has.
    Found,
    This(Qdisc),
}

/// Options of `send`.
#[derive(Args)]
pub struct SendArgs {
    /// Destination, e.g. 198.18.0.2:5000 or [2001:2::2]:5000
    #[arg(long, value_name = "ADDR:PORT", value_parser = destination)]
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
    /// Packets per second, such as 10000 or 0.5; 0 is as fast as possible
    #[arg(long, value_name = "PPS", default_value = "0")]
    rate: Rate,
    /// Packets per second from --after on
    #[arg(long, value_name = "PPS", requires = "after", conflicts_with = "interval")]
    then: Option<Rate>,
    /// How long after the first packet the rate becomes that of --then
    #[arg(long, value_name = "SECONDS", requires = "then", value_parser = seconds)]
    after: Option<Duration>,
    /// Time between packets, such as 1ms, or a generator of times
    #[arg(long, value_name = "TIME|GENERATOR", conflicts_with = "rate")]
    interval: Option<String>,
    /// What random sizes and times begin with: the same seed, the same sizes and times
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Give the kernel up to N packets of a flow (with --device: of all) at once, if so many are due;
    /// each is stamped before the first of them leaves
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Give each batch as one piece that the kernel cuts into packets of one size (UDP_SEGMENT)
    #[arg(long, requires = "batch", conflicts_with = "device")]
    segment: bool,
    /// Exit with 1 if the rate that was reached is off by more than so many per cent
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "0.1",
          value_parser = percent)]
    pub strict_rate: Option<f64>,
    /// Source ports, used in turn, each for a whole batch, or with --device for a packet
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// First source port; 0 lets the kernel choose, and is 1024 with --device
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
    /// Give packets to the kernel ahead of their times, which its queue discipline keeps (SO_TXTIME):
    /// fq, or etf, which needs CAP_NET_ADMIN; alone: the one that the device has
    ///
    /// A packet's stamp is then the time that it is to leave at.
    #[arg(long, value_name = "fq|etf", num_args = 0..=1, default_missing_value = "",
          value_parser = keeper, conflicts_with_all = ["segment", "device"])]
    txtime: Option<Keeper>,
    /// With --txtime, how long before its time the kernel gets a packet, such as 2ms
    #[arg(long, value_name = "TIME", default_value = "500us", requires = "txtime",
          value_parser = lead)]
    lead: Duration,
    /// Number of this transmission in each header [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    transmission: Option<u16>,
    #[command(flatten)]
    from_device: DeviceArgs,
}

/// Frames from a device.
#[derive(Args)]
#[command(next_help_heading = "From a device, around the stack")]
struct DeviceArgs {
    /// Send Ethernet frames from this device, which needs CAP_NET_RAW
    ///
    /// Also give --mac and --from. What the device refuses is not sent again.
    #[arg(long, value_name = "DEVICE", requires_all = ["mac", "from"])]
    device: Option<String>,
    /// Ethernet address that frames go to, such as 02:00:00:00:00:01
    #[arg(long, value_name = "MAC", requires = "device")]
    mac: Option<Mac>,
    /// Ethernet address that they come from [default: the device's]
    #[arg(long, value_name = "MAC", requires = "device", value_parser = source_mac)]
    source_mac: Option<Mac>,
    /// IP address that they come from
    #[arg(long, value_name = "ADDR", requires = "device")]
    from: Option<IpAddr>,
    /// Each packet goes to an address of its own, any of these, and to the port of --to
    #[arg(long, value_name = "FIRST-LAST", requires = "device")]
    to_range: Option<Range>,
    /// ID of a VLAN: frames have a tag, and are 4 bytes longer
    #[arg(long, value_name = "ID", requires = "device",
          value_parser = clap::value_parser!(u16).range(..=i64::from(MOST_VLAN)))]
    vlan: Option<u16>,
    /// Pass the device's queue discipline, and what is attached to its egress
    #[arg(long, requires = "device", conflicts_with = "xdp")]
    queue: bool,
    /// Send by AF_XDP, the fastest way
    ///
    /// It waits while the transmit ring is full, and sends from the first queue.
    #[arg(long, requires = "device")]
    xdp: bool,
}

impl DeviceArgs {
    /// How frames leave, if they shall; `to` is their destination.
    fn plan(&self, to: SocketAddr) -> Result<Option<send::Device>, String> {
        let (Some(name), Some(mac), Some(from)) = (&self.device, self.mac, self.from) else {
            return Ok(None);
        };
        let family = |ipv4| if ipv4 { "IPv4" } else { "IPv6" };
        let expected = family(to.is_ipv4());
        if from.is_ipv4() != to.is_ipv4() {
            let found = family(from.is_ipv4());
            return Err(format!("--from {from} is of {found}, --to {to} of {expected}"));
        }
        if let Some(range) = self.to_range.filter(|range| range.is_ipv4() != to.is_ipv4()) {
            let found = family(range.is_ipv4());
            return Err(format!("--to-range is of {found}, --to {to} of {expected}"));
        }
        Ok(Some(send::Device {
            name: name.clone(),
            mac,
            source_mac: self.source_mac,
            from,
            to_range: self.to_range,
            vlan: self.vlan,
            queue: self.queue,
            xdp: self.xdp,
        }))
    }
}

/// What generators there are, for the help.
pub fn generators() -> String {
    let lines = GENERATORS
        .iter()
        .map(|kind| format!("  {}:{}\n          {}\n", kind.name, kind.form, kind.about));
    format!(
        "Generators, of times (1.5ms, 20us) or of bytes (512); a value alone is constant:\n{}",
        lines.collect::<String>()
    )
}

impl SendArgs {
    /// What they ask for.
    pub fn plan(&self) -> Result<send::Plan, String> {
        let overhead = send::frame_overhead(self.to);
        let smallest = u16::try_from(header::LEN).expect("the header is small");
        let (option, text, more_bytes) = match (&self.size, &self.frame) {
            (Some(size), _) => ("--size", size.clone(), 0),
            (None, Some(frame)) => ("--frame", frame.clone(), -i32::from(overhead)),
            (None, None) => ("--size", smallest.to_string(), 0),
        };
        let sizes = Named::parse(&text, Unit::Bytes).map_err(|why| format!("{option} {why}"))?;
        let intervals = self.interval.as_deref().map(|text| Named::parse(text, Unit::Time));
        let intervals = intervals.transpose().map_err(|why| format!("--interval {why}"))?;
        // One size is meant as it is; of many, what is too small for the header gets its size.
        let one = sizes.generator.constant().map(|size| size + f64::from(more_bytes));
        if self.segment && one.is_none() {
            return Err(format!(
                "--segment: all packets have one size then; expected {option} BYTES"
            ));
        }
        if one.is_some_and(|bytes| bytes < smallest.into()) {
            return Err(format!(
                "{option} {text}: the payload must hold the {smallest}-byte header: use --size \
             {smallest} or --frame {} or more",
                smallest + overhead
            ));
        }
        let most = send::most_bytes(self.to);
        if one.is_some_and(|bytes| bytes > most.into()) {
            return Err(format!(
                "{option} {text}: a packet carries a UDP payload of at most {most} bytes, a frame of {}",
                u32::from(most) + u32::from(overhead)
            ));
        }
        if self.strict_rate.is_some() && self.rate.is_zero() && intervals.is_none() {
            return Err(
                "--strict-rate: there is no rate to be kept; give --rate or --interval".into()
            );
        }
        let txtime = self.txtime(intervals.is_some())?;
        let step = self.step()?;
        let device = self.from_device.plan(self.to)?;
        // No kernel chooses one for a frame.
        let source_port = match (self.source_port, &device) {
            (0, Some(_)) => FIRST_PORT,
            (port, _) => port,
        };
        if source_port.checked_add(self.flows - 1).is_none() {
            return Err(format!(
                "--source-port {} leaves no room for {} flows below port 65536",
                source_port, self.flows
            ));
        }
        Ok(send::Plan {
            to: self.to,
            device,
            count: self.count,
            sizes,
            more_bytes,
            rate: self.rate,
            step,
            intervals,
            seed: self.seed,
            batch: self.batch.into(),
            segment: self.segment,
            flows: self.flows,
            source_port,
            limit: self.seconds,
            spin: self.spin,
            late: self.late,
            txtime,
            transmission: self.transmission.unwrap_or_else(transmission_from_clock),
        })
    }

    /// Who keeps the times, if the kernel shall; a warning is printed.
    fn txtime(&self, has_intervals: bool) -> Result<Option<send::Txtime>, String> {
        let asked = match self.txtime {
            None => return Ok(None),
            Some(Keeper::Found) => None,
            Some(Keeper::This(qdisc)) => Some(qdisc),
        };
        if self.rate.is_zero() && !has_intervals {
            return Err("--txtime: packets have no times; give --rate or --interval".into());
        }
        let (by, warning) = txtime::keeper(asked, self.to)?;
        if let Some(warning) = warning {
            eprintln!("skblab-traffic: {warning}");
        }
        Ok(Some(send::Txtime { by, lead: self.lead }))
    }

    /// Where the rate changes, if it shall.
    fn step(&self) -> Result<Option<Step>, String> {
        let (Some(rate), Some(after)) = (self.then, self.after) else { return Ok(None) };
        if self.rate.is_zero() || rate.is_zero() {
            return Err(
                "--then: from one rate to another; expected a --rate and a --then above 0".into()
            );
        }
        Ok(Some(Step { rate, after }))
    }
}

/// A number that differs between transmissions started more than a few microseconds apart.
pub fn transmission_from_clock() -> u16 {
    let [.., high, low, _] = (realtime_ns() >> 4).to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// Take who keeps the times; no word is whoever the device has.
fn keeper(text: &str) -> Result<Keeper, String> {
    if text.is_empty() { Ok(Keeper::Found) } else { text.parse().map(Keeper::This) }
}

/// Take how long before its time the kernel gets a packet: `fq` drops none below ten seconds.
fn lead(text: &str) -> Result<Duration, String> {
    let found = interval(text).ok().map(|ns| Duration::from_secs_f64(ns / 1e9));
    found
        .filter(|lead| (Duration::from_nanos(1)..=MOST_LEAD).contains(lead))
        .ok_or_else(|| "expected a time of at most 1s, such as 500us".to_owned())
}

pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected per cent from 0, such as 0.1".to_owned())
}

fn source_mac(text: &str) -> Result<Mac, String> {
    let mac = text.parse::<Mac>()?;
    if mac.is_group() {
        return Err("it is of a group, which no frame comes from".to_owned());
    }
    Ok(mac)
}
