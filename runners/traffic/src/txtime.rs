// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that the kernel has ahead of their time, each with the time when it is to leave.
//!
//! By `SO_TXTIME` and `SCM_TXTIME`. A queue discipline of the device keeps the times: `fq` has them
//! by the monotonic clock, `etf` by that of atomic time. Without one of them packets leave at once.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::str::FromStr;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::net::if_::if_indextoname;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};

use crate::clock::{NS_PER_SEC, monotonic_ns};
use crate::qdisc;
use crate::socket::describe;

/// Of the kernel's header errqueue.h.
const ORIGIN: u8 = 6;
const INVALID: u8 = 1;
const MISSED: u8 = 2;

/// What keeps the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// Fair queueing.
    Fq,
    /// Earliest transmit time first.
    Etf,
}

impl Qdisc {
    /// Its name, as `tc` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fq => "fq",
            Self::Etf => "etf",
        }
    }

    /// The name of the clock that it has times by.
    #[must_use]
    pub fn clock_name(self) -> &'static str {
        match self {
            Self::Fq => "monotonic",
            Self::Etf => "tai",
        }
    }

    fn clock(self) -> libc::clockid_t {
        match self {
            Self::Fq => libc::CLOCK_MONOTONIC,
            Self::Etf => libc::CLOCK_TAI,
        }
    }

    /// What its clock is ahead of the monotonic one now, nanoseconds.
    #[must_use]
    pub fn ahead_ns(self) -> u64 {
        match self {
            Self::Fq => 0,
            Self::Etf => tai_ns().saturating_sub(monotonic_ns()),
        }
    }
}

impl FromStr for Qdisc {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fq" => Ok(Self::Fq),
            "etf" => Ok(Self::Etf),
            _ => Err("expected fq or etf".to_owned()),
        }
    }
}

fn tai_ns() -> u64 {
    let now = clock_gettime(ClockId::from_raw(libc::CLOCK_TAI)).expect("Linux has this clock");
    u64::try_from(now.tv_sec()).unwrap_or(0) * NS_PER_SEC
        + u64::try_from(now.tv_nsec()).unwrap_or(0)
}

/// Which queue discipline will keep the times of packets to an address: the one that is asked for,
/// or the one that the device has. Also what to warn of, if the device does not have it.
///
/// # Errors
/// In one line why no time would be kept.
pub fn keeper(asked: Option<Qdisc>, to: SocketAddr) -> Result<(Qdisc, Option<String>), String> {
    let cannot = |error: &io::Error| format!("--txtime: no way to {to}: {}", describe(error));
    let device = qdisc::device_to(to).map_err(|error| cannot(&error))?;
    let kinds = qdisc::kinds(device).map_err(|error| cannot(&error))?;
    let name = if_indextoname(device)
        .map_or_else(|_| format!("device {device}"), |name| name.to_string_lossy().into_owned());
    chosen(asked, &kinds, &name)
}

fn chosen(
    asked: Option<Qdisc>,
    kinds: &[String],
    device: &str,
) -> Result<(Qdisc, Option<String>), String> {
    let found = kinds.iter().find_map(|kind| kind.parse::<Qdisc>().ok());
    let has = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    let mend = "`tc qdisc replace dev DEVICE root fq`".replace("DEVICE", device);
    match (asked, found) {
        (Some(asked), _) if kinds.iter().any(|kind| kind == asked.name()) => Ok((asked, None)),
        (Some(asked), _) => Ok((
            asked,
            Some(format!(
                "--txtime {}: the queue discipline of {device} is {has}: unless a device below has \
                 {}, packets leave at once, ahead of their times",
                asked.name(),
                asked.name()
            )),
        )),
        (None, Some(found)) => Ok((found, None)),
        (None, None) => Err(format!(
            "--txtime: the queue discipline of {device} is {has}, which keeps no times; expected \
             fq or etf: {mend}, or say which one a device below has"
        )),
    }
}

/// Have a socket take times for a queue discipline, and tell of packets that had none to keep.
///
/// # Errors
/// What the kernel said: `EPERM` for `etf` without `CAP_NET_ADMIN`.
pub fn ask(socket: &UdpSocket, of: Qdisc) -> io::Result<()> {
    let asked = libc::sock_txtime { clockid: of.clock(), flags: libc::SOF_TXTIME_REPORT_ERRORS };
    Ok(setsockopt(socket, sockopt::TxTime, &asked)?)
}

/// Packets that the queue discipline dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Their time was over when they could have left.
    pub missed: u64,
    /// Their time was over, or of another clock, when it got them: the call fails as well.
    pub invalid: u64,
}

/// What a socket was told of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// By the queue discipline.
    pub dropped: Dropped,
    /// By other machines: nothing listens there. While this is read, no call says so.
    pub nobody: u64,
}

/// Read all that a socket was told.
///
/// # Errors
/// What the kernel said.
pub fn told(socket: &UdpSocket, into: &mut Told) -> io::Result<()> {
    // As large as the address of a machine that an error came from.
    let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    loop {
        let mut data = [0; 0];
        let mut parts = [IoSliceMut::new(&mut data)];
        let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)
        {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(()),
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for one in message.cmsgs()? {
            if let ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) = one
            {
                into.take(&error);
            }
        }
    }
}

impl Told {
    fn take(&mut self, error: &libc::sock_extended_err) {
        let refused = error.ee_errno == libc::ECONNREFUSED.unsigned_abs();
        match (error.ee_origin, error.ee_code) {
            (ORIGIN, MISSED) => self.dropped.missed += 1,
            (ORIGIN, INVALID) => self.dropped.invalid += 1,
            (libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6, _) if refused => self.nobody += 1,
            // Any other is an error of the call as well.
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_keeps_times_is_needed() {
        let of = |asked, kinds: &[&str]| {
            let kinds = kinds.iter().map(ToString::to_string).collect::<Vec<_>>();
            chosen(asked, &kinds, "eth0")
        };
        assert_eq!(of(None, &["mq", "fq"]), Ok((Qdisc::Fq, None)));
        assert_eq!(of(None, &["mqprio", "etf"]), Ok((Qdisc::Etf, None)));
        assert_eq!(of(Some(Qdisc::Etf), &["fq", "etf"]), Ok((Qdisc::Etf, None)));
        let why = of(None, &["noqueue"]).unwrap_err();
        assert!(why.contains("of eth0 is noqueue, which keeps no times; expected fq"), "{why}");
        assert!(why.contains("`tc qdisc replace dev eth0 root fq`"), "{why}");
        assert!(of(None, &[]).unwrap_err().contains("is none"));
        let (chosen, warning) = of(Some(Qdisc::Fq), &["etf"]).unwrap();
        assert_eq!(chosen, Qdisc::Fq);
        assert!(warning.unwrap().starts_with("--txtime fq: the queue discipline of eth0 is etf"));
    }

    #[test]
    fn clocks_are_those_of_the_queue_disciplines() {
        assert_eq!(Qdisc::Fq.ahead_ns(), 0);
        let before_ns = tai_ns();
        let found_ns = monotonic_ns() + Qdisc::Etf.ahead_ns();
        assert!((before_ns.saturating_sub(NS_PER_SEC)..=tai_ns() + NS_PER_SEC).contains(&found_ns));
        for one in [Qdisc::Fq, Qdisc::Etf] {
            assert_eq!(one.name().parse(), Ok(one));
        }
        assert!("pfifo".parse::<Qdisc>().is_err());
    }

    #[test]
    fn errors_are_told_apart() {
        let mut told = Told::default();
        let refused = libc::ECONNREFUSED.unsigned_abs();
        for (origin, code, errno) in [
            (ORIGIN, MISSED, 125),
            (ORIGIN, MISSED, 125),
            (ORIGIN, INVALID, 22),
            (libc::SO_EE_ORIGIN_ICMP, 3, refused),
            (libc::SO_EE_ORIGIN_ICMP6, 4, refused),
            (libc::SO_EE_ORIGIN_ICMP, 1, 113),
            (libc::SO_EE_ORIGIN_LOCAL, 0, 90),
        ] {
            told.take(&libc::sock_extended_err {
                ee_errno: errno,
                ee_origin: origin,
                ee_type: 0,
                ee_code: code,
                ee_pad: 0,
                ee_info: 0,
                ee_data: 0,
            });
        }
        assert_eq!(told, Told { dropped: Dropped { missed: 2, invalid: 1 }, nobody: 2 });
    }

    #[test]
    fn a_closed_port_is_told_by_the_error_queue() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = crate::socket::open_sender(closed, 0).unwrap();
        ask(&socket, Qdisc::Fq).unwrap();
        let mut found = Told::default();
        // The answer comes by the same thread, but for one of threaded interrupts.
        for _ in 0..1000 {
            let _refused = socket.send(b"x");
            told(&socket, &mut found).unwrap();
            if found.nobody > 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(found.nobody > 0);
        assert_eq!(found.dropped, Dropped::default());
    }
}
