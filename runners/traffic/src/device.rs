// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel knows of a network device, asked by rtnetlink.
//!
//! That is of the network namespace that we are in, whatever is mounted at /sys.

use std::io;

use nix::errno::Errno;

use crate::frame::Mac;
use crate::netlink::{self, Message, part, unknown};

/// Of the kernel's headers rtnetlink.h and `if_link.h`.
const LINK: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_STATS64: u16 = 23;
/// Places of 64-bit counters in `rtnl_link_stats64`.
const TX_PACKETS: usize = 1;
const TX_DROPPED: usize = 7;
/// Of a device: it was set up, and it has a carrier.
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
const ARPHRD_ETHER: u16 = 1;
/// A name has at most so many bytes.
const MOST_NAME: usize = 15;

/// Counters of a device, from when it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that it took to be sent.
    pub tx_packets: u64,
    /// Packets to be sent that it dropped.
    pub tx_dropped: u64,
}

/// A network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub index: u32,
    /// Whether its frames are Ethernet's.
    pub ethernet: bool,
    /// Whether it was set up.
    pub up: bool,
    /// Whether something is at its other end.
    pub carrier: bool,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// The largest IP packet that it carries, bytes.
    pub mtu: u32,
    /// What it counted.
    pub counters: Counters,
}

/// Ask for a device by its name.
///
/// # Errors
/// What the kernel said: `ENODEV` if there is none.
pub fn named(name: &str) -> io::Result<Device> {
    let bytes = name.as_bytes();
    let (1..=MOST_NAME, false) = (bytes.len(), bytes.contains(&0)) else {
        return Err(Errno::ENODEV.into());
    };
    let mut attribute = Vec::new();
    netlink::put(&mut attribute, IFLA_IFNAME, &[bytes, &[0]].concat())?;
    ask(0, &attribute)
}

/// Ask for an Ethernet device that is up, and its address.
///
/// # Errors
/// In one line why it cannot be used.
pub fn ethernet(name: &str) -> Result<(Device, Mac), String> {
    let found = named(name).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => {
            format!("--device {name}: there is no such device in this network namespace")
        }
        _ => format!("--device {name}: cannot ask for it: {error}"),
    })?;
    let Some(mac) = found.mac.filter(|_| found.ethernet) else {
        return Err(format!("--device {name}: it is no Ethernet device"));
    };
    if !found.up {
        return Err(format!("--device {name} is down: `ip link set {name} up`"));
    }
    Ok((found, mac))
}

/// Ask for a device by its number.
///
/// # Errors
/// What the kernel said: `ENODEV` if there is none.
pub fn numbered(index: u32) -> io::Result<Device> {
    ask(index, &[])
}

fn ask(index: u32, attributes: &[u8]) -> io::Result<Device> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.resize(LINK, 0);
    body.extend(attributes);
    read(&netlink::ask(RTM_GETLINK, &body)?)
}

/// Take an answer apart.
fn read(answer: &Message) -> io::Result<Device> {
    let body = &answer.body;
    if answer.kind != RTM_NEWLINK {
        return Err(unknown());
    }
    let flags = u32::from_ne_bytes(part(body, 8).ok_or_else(unknown)?);
    let mut device = Device {
        ethernet: part(body, 2).map(u16::from_ne_bytes) == Some(ARPHRD_ETHER),
        index: u32::from_ne_bytes(part(body, 4).ok_or_else(unknown)?),
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        mac: None,
        mtu: 0,
        counters: Counters::default(),
    };
    let counter = |value: &[u8], place| part(value, place * 8).map_or(0, u64::from_ne_bytes);
    for (kind, value) in netlink::attributes(body, LINK)? {
        match kind {
            IFLA_ADDRESS => device.mac = value.try_into().ok().map(Mac),
            IFLA_MTU => device.mtu = part(value, 0).map_or(0, u32::from_ne_bytes),
            IFLA_STATS64 => {
                device.counters = Counters {
                    tx_packets: counter(value, TX_PACKETS),
                    tx_dropped: counter(value, TX_DROPPED),
                };
            }
            _ => (),
        }
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_is_there() {
        let device = named("lo").unwrap();
        assert!(!device.ethernet && device.mtu > 1000, "{device:?}");
        assert_eq!(numbered(device.index).unwrap().index, device.index);
        assert_eq!(device.mac, Some(Mac([0; 6])));
    }

    #[test]
    fn a_device_that_is_not_there_is_none() {
        for name in ["nowhere", "", "a-name-that-is-too-long", "l\0o"] {
            assert_eq!(named(name).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name:?}");
        }
        assert_eq!(numbered(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn fields_are_where_the_kernel_puts_them() {
        let mut body = vec![0; LINK];
        body[2..4].copy_from_slice(&ARPHRD_ETHER.to_ne_bytes());
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        body[8..12].copy_from_slice(&(IFF_UP | IFF_LOWER_UP).to_ne_bytes());
        let mut add = |kind: u16, value: &[u8]| netlink::put(&mut body, kind, value).unwrap();
        add(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]);
        add(IFLA_MTU, &1500_u32.to_ne_bytes());
        // Other kinds, and of the counters those of packets sent and dropped.
        add(5, b"x");
        add(IFLA_STATS64, &(0..10_u64).flat_map(u64::to_ne_bytes).collect::<Vec<_>>());
        let expected = Device {
            index: 7,
            ethernet: true,
            up: true,
            carrier: true,
            mac: Some(Mac([2, 0, 0, 0, 0, 9])),
            mtu: 1500,
            counters: Counters { tx_packets: 1, tx_dropped: 7 },
        };
        assert_eq!(read(&Message { kind: RTM_NEWLINK, body }).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn any_answer_is_safe(body: Vec<u8>, known: bool) {
            let kind = if known { RTM_NEWLINK } else { 0 };
            let _either = read(&Message { kind, body });
        }
    }
}
