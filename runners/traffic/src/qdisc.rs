// SPDX-License-Identifier: GPL-2.0-or-later
//! Which device packets to an address leave by, and what queue disciplines it has.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::netlink::{self, Message, part, unknown};

/// Of the kernel's headers rtnetlink.h and `pkt_sched.h`.
const ROUTE: usize = 12;
const CONTROL: usize = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_GETQDISC: u16 = 38;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const TCA_KIND: u16 = 1;

/// The number of the device that packets to an address leave by.
///
/// # Errors
/// What the kernel said: `ENETUNREACH` without a route.
pub fn device_to(to: SocketAddr) -> io::Result<u32> {
    match to {
        // An address of one link says which.
        SocketAddr::V6(local) if local.scope_id() != 0 => Ok(local.scope_id()),
        _ => device_of(&netlink::ask(RTM_GETROUTE, &route_to(to.ip())?)?),
    }
}

fn route_to(to: IpAddr) -> io::Result<Vec<u8>> {
    let (family, address) = match to {
        IpAddr::V4(four) => (libc::AF_INET, four.octets().to_vec()),
        IpAddr::V6(six) => (libc::AF_INET6, six.octets().to_vec()),
    };
    let bits = address.len() * 8;
    let mut body = vec![u8::try_from(family).unwrap_or(0), u8::try_from(bits).unwrap_or(0)];
    body.resize(ROUTE, 0);
    netlink::put(&mut body, RTA_DST, &address)?;
    Ok(body)
}

fn device_of(answer: &Message) -> io::Result<u32> {
    let of_route = answer.kind == RTM_NEWROUTE;
    let attributes = netlink::attributes(&answer.body, ROUTE)?;
    let device = attributes.iter().find(|(kind, _)| *kind == RTA_OIF && of_route);
    let number = device.and_then(|(_, value)| part(value, 0)).ok_or_else(unknown)?;
    Ok(u32::from_ne_bytes(number))
}

/// The queue disciplines of a device by their kinds, such as `fq`: each once.
///
/// # Errors
/// What the kernel said.
pub fn kinds(device: u32) -> io::Result<Vec<String>> {
    kinds_of(device, &netlink::list(RTM_GETQDISC, &[0; CONTROL])?)
}

fn kinds_of(device: u32, answers: &[Message]) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for answer in answers {
        // The kernel tells of all devices.
        if part(&answer.body, 4).map(u32::from_ne_bytes) != Some(device) {
            continue;
        }
        for (kind, value) in netlink::attributes(&answer.body, CONTROL)? {
            let name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
            if kind == TCA_KIND && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_leads_to_itself() {
        for to in ["127.0.0.1:1", "127.1.2.3:1"] {
            let device = device_to(to.parse().unwrap()).unwrap();
            assert_eq!(device, crate::device::named("lo").unwrap().index);
            assert!(!kinds(device).unwrap().is_empty());
        }
        assert_eq!(device_to("[fe80::1%7]:1".parse().unwrap()).unwrap(), 7);
    }

    #[test]
    fn kinds_are_those_of_the_device() {
        let answer = |device: u32, kind: &[u8]| {
            let mut body = vec![0; 4];
            body.extend(device.to_ne_bytes());
            body.resize(CONTROL, 0);
            netlink::put(&mut body, 2, b"other").unwrap();
            netlink::put(&mut body, TCA_KIND, kind).unwrap();
            Message { kind: 36, body }
        };
        let answers =
            [answer(3, b"mq\0"), answer(3, b"fq\0"), answer(3, b"fq\0"), answer(4, b"etf\0")];
        assert_eq!(kinds_of(3, &answers).unwrap(), ["mq", "fq"]);
        assert_eq!(kinds_of(4, &answers).unwrap(), ["etf"]);
        assert!(kinds_of(5, &answers).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_answer_is_safe(kind in 20..40_u16, body: Vec<u8>, device: u32) {
            let answer = Message { kind, body };
            let _either = device_of(&answer);
            let _either = kinds_of(device, &[answer]);
        }
    }
}
