// SPDX-License-Identifier: GPL-2.0-or-later
//! Ethernet frames with a UDP packet in them, built from a head that is the same in each.
//!
//! The checksums of IPv4 and UDP begin with the sums of that head. Of a packet only its lengths,
//! its ports, its destination and our header are added: the rest of a payload is zero.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::header::LEN;

/// Bytes of the Ethernet header.
pub const ETHERNET: u16 = 14;
/// Bytes of a VLAN tag.
pub const TAG: u16 = 4;
/// The highest ID of a VLAN; 4095 is reserved.
pub const MOST_VLAN: u16 = 4094;
/// Bytes of the Ethernet checksum, which a device adds.
pub const FRAME_CHECK: u16 = 4;
const UDP: u16 = 8;
const IPV4: u16 = 20;
const IPV6: u16 = 40;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TYPE_VLAN: u16 = 0x8100;
const PROTOCOL_UDP: u8 = 17;
const HOPS: u8 = 64;

/// Bytes of IP and UDP headers.
#[must_use]
pub const fn headers(ipv4: bool) -> u16 {
    UDP + if ipv4 { IPV4 } else { IPV6 }
}

/// Bytes around a UDP payload on Ethernet: MAC header and checksum, IP header, UDP header.
#[must_use]
pub const fn overhead(ipv4: bool) -> u16 {
    ETHERNET + FRAME_CHECK + headers(ipv4)
}

/// The largest UDP payload that one packet of IP carries.
#[must_use]
pub const fn most_payload(ipv4: bool) -> u16 {
    u16::MAX - UDP - if ipv4 { IPV4 } else { 0 }
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether it is of a group, which no frame comes from.
    #[must_use]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = |word: &str| {
            let digits = word.len() == 2 && word.bytes().all(|one| one.is_ascii_hexdigit());
            digits.then(|| u8::from_str_radix(word, 16).ok()).flatten()
        };
        let bytes = text.split(':').map(byte).collect::<Option<Vec<_>>>();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| {
            "expected an Ethernet address, six bytes such as 02:00:00:00:00:01".to_owned()
        })
    }
}

/// Between whom frames travel.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The Ethernet address that frames come from.
    pub source_mac: Mac,
    /// The Ethernet address that they go to.
    pub mac: Mac,
    /// The ID of their VLAN, if they have a tag.
    pub vlan: Option<u16>,
    /// The IP address that they come from, of the family of `to`.
    pub from: IpAddr,
    /// The port that they go to, and the family.
    pub to: SocketAddr,
}

/// What frames differ in.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The UDP port that it comes from.
    pub source_port: u16,
    /// Where it goes, of the family of all.
    pub to: IpAddr,
    /// Bytes of the UDP payload, at least those of our header.
    pub payload: u16,
    /// Our header.
    pub header: [u8; LEN],
}

/// Builds frames.
#[derive(Clone, Debug)]
pub struct Builder {
    /// All headers, with zeros for what differs.
    head: Vec<u8>,
    ipv4: bool,
    /// Where the IP header begins, and where the UDP header does.
    ip: usize,
    udp: usize,
    /// Sums of what each IPv4 header has, and of what each UDP checksum covers.
    ip_sum: u32,
    udp_sum: u32,
}

impl Builder {
    /// Have all that is the same in each frame.
    ///
    /// # Panics
    /// If both ends have not one family.
    #[must_use]
    pub fn new(ends: &Ends) -> Self {
        assert_eq!(ends.from.is_ipv4(), ends.to.is_ipv4(), "one family");
        let ipv4 = ends.from.is_ipv4();
        let mut head = [ends.mac.0, ends.source_mac.0].concat();
        if let Some(vlan) = ends.vlan {
            head.extend([TYPE_VLAN.to_be_bytes(), vlan.to_be_bytes()].concat());
        }
        head.extend(if ipv4 { TYPE_IPV4 } else { TYPE_IPV6 }.to_be_bytes());
        let ip = head.len();
        match ends.from {
            // Never to be fragmented, so that it needs no identification (RFC 6864).
            IpAddr::V4(from) => {
                head.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, PROTOCOL_UDP, 0, 0]);
                head.extend(from.octets());
                head.extend([0; 4]);
            }
            IpAddr::V6(from) => {
                head.extend([0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, HOPS]);
                head.extend(from.octets());
                head.extend([0; 16]);
            }
        }
        let udp = head.len();
        head.extend([0, 0]);
        head.extend(ends.to.port().to_be_bytes());
        head.extend([0; 4]);
        let from = match ends.from {
            IpAddr::V4(from) => sum(&from.octets()),
            IpAddr::V6(from) => sum(&from.octets()),
        };
        Self {
            ip_sum: sum(&head[ip..udp]),
            udp_sum: from + u32::from(PROTOCOL_UDP) + u32::from(ends.to.port()),
            head,
            ipv4,
            ip,
            udp,
        }
    }

    /// Make a frame that was built before, or an empty one, that of a packet.
    ///
    /// # Panics
    /// If the packet is of the other family, or its payload does not fit.
    pub fn build(&self, frame: &mut Vec<u8>, packet: &Packet) {
        let head = self.head.len();
        // Behind our header a frame of ours has zeros, and what it grows by is zero.
        frame.resize(head + usize::from(packet.payload), 0);
        frame[..head].copy_from_slice(&self.head);
        frame[head..head + LEN].copy_from_slice(&packet.header);
        let length = UDP + packet.payload;
        let (ip, udp) = (self.ip, self.udp);
        let to_sum = match packet.to {
            IpAddr::V4(to) => {
                assert!(self.ipv4, "an IPv4 packet");
                let (to, total) = (to.octets(), length + IPV4);
                let to_sum = sum(&to);
                frame[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
                frame[ip + 16..ip + 20].copy_from_slice(&to);
                let check = folded(self.ip_sum + u32::from(total) + to_sum);
                frame[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
                to_sum
            }
            IpAddr::V6(to) => {
                assert!(!self.ipv4, "an IPv6 packet");
                frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
                frame[ip + 24..ip + 40].copy_from_slice(&to.octets());
                sum(&to.octets())
            }
        };
        frame[udp..udp + 2].copy_from_slice(&packet.source_port.to_be_bytes());
        frame[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
        // The length is in the pseudo header as well.
        let more = u32::from(packet.source_port) + 2 * u32::from(length);
        let check = match folded(self.udp_sum + to_sum + more + sum(&packet.header)) {
            // Zero would say that there is no checksum.
            0 => u16::MAX,
            check => check,
        };
        frame[udp + 6..udp + 8].copy_from_slice(&check.to_be_bytes());
    }
}

/// A UDP packet that was read, as far as it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Where it comes from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// The beginning of its payload.
    pub payload: &'a [u8],
    /// Bytes of the whole payload.
    pub bytes: u16,
}

/// The packet in an Ethernet frame, behind a VLAN tag if it has one.
#[must_use]
pub fn network(frame: &[u8]) -> Option<&[u8]> {
    let kind = frame.get(12..14)?;
    let header = if kind == [0x81, 0] { ETHERNET + TAG } else { ETHERNET };
    frame.get(header.into()..)
}

/// Read what an IP header begins; nothing if that is no whole packet of UDP. No checksum is verified.
#[must_use]
pub fn read(network: &[u8]) -> Option<Udp<'_>> {
    let (from, to, udp): (IpAddr, IpAddr, _) = match network.first()? >> 4 {
        4 => {
            // Of a fragment only the first has ports, and none is a packet.
            let fragment = u16::from_be_bytes(part(network, 6)?) & 0x3fff;
            if fragment > 0 || *network.get(9)? != PROTOCOL_UDP {
                return None;
            }
            let header = usize::from(network.first()? & 0xf) * 4;
            let (from, to) = (part::<4>(network, 12)?, part::<4>(network, 16)?);
            (from.into(), to.into(), network.get(header.max(IPV4.into())..)?)
        }
        6 if *network.get(6)? == PROTOCOL_UDP => {
            let (from, to) = (part::<16>(network, 8)?, part::<16>(network, 24)?);
            (from.into(), to.into(), network.get(IPV6.into()..)?)
        }
        _ => return None,
    };
    let port = |at| part(udp, at).map(u16::from_be_bytes);
    let bytes = port(4)?.checked_sub(UDP)?;
    let payload = udp.get(UDP.into()..)?;
    Some(Udp {
        from: (from, port(0)?).into(),
        to: (to, port(2)?).into(),
        payload: payload.get(..bytes.into()).unwrap_or(payload),
        bytes,
    })
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The sum of 16-bit words; of so few of them it is no number of more than 32 bits.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum()
}

/// The checksum that a sum stands for (RFC 1071).
fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    !u16::try_from(twice).expect("folded twice")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
    const SOURCE_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn ends(from: IpAddr, port: u16, vlan: Option<u16>) -> Ends {
        // Only family and port are of this destination.
        let any = match from {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        Ends { source_mac: SOURCE_MAC, mac: MAC, vlan, from, to: (any, port).into() }
    }

    /// What a receiver computes: the ones' complement sum of all, bit by bit as RFC 791 words it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0_u16;
        for at in (0..bytes.len()).step_by(2) {
            let low = bytes.get(at + 1).copied().unwrap_or(0);
            let (added, carry) = sum.overflowing_add(u16::from_be_bytes([bytes[at], low]));
            sum = added + u16::from(carry);
        }
        sum
    }

    fn word(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    /// Take a frame apart as a receiver does, and hold each field against what was asked for.
    fn check(frame: &[u8], ends: &Ends, packet: &Packet) {
        assert_eq!((&frame[..6], &frame[6..12]), (&MAC.0[..], &SOURCE_MAC.0[..]));
        let ip = match ends.vlan {
            None => 14,
            Some(vlan) => {
                assert_eq!((word(frame, 12), word(frame, 14)), (0x8100, vlan));
                18
            }
        };
        let packet_bytes = &frame[ip..];
        let payload = usize::from(packet.payload);
        let (udp, pseudo) = match (ends.from, packet.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                assert_eq!(word(frame, ip - 2), 0x0800);
                assert_eq!((packet_bytes[0], packet_bytes[8], packet_bytes[9]), (0x45, 64, 17));
                assert_eq!(usize::from(word(packet_bytes, 2)), packet_bytes.len());
                assert_eq!(packet_bytes[12..20], [from.octets(), to.octets()].concat());
                assert_eq!(naive(&packet_bytes[..20]), 0xffff, "IPv4 checksum");
                (&packet_bytes[20..], [from.octets(), to.octets()].concat())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                assert_eq!(word(frame, ip - 2), 0x86dd);
                assert_eq!((packet_bytes[0], packet_bytes[6], packet_bytes[7]), (0x60, 17, 64));
                assert_eq!(usize::from(word(packet_bytes, 4)) + 40, packet_bytes.len());
                (&packet_bytes[40..], packet_bytes[8..40].to_vec())
                    .also(|(_, pseudo)| assert_eq!(*pseudo, [from.octets(), to.octets()].concat()))
            }
            _ => panic!("two families"),
        };
        assert_eq!((word(udp, 0), word(udp, 2)), (packet.source_port, ends.to.port()));
        assert_eq!((usize::from(word(udp, 4)), udp.len()), (8 + payload, 8 + payload));
        let length = u32::try_from(udp.len()).unwrap().to_be_bytes();
        let all = [&pseudo[..], &length, &[0, 0, 0, 17], udp].concat();
        assert_eq!(naive(&all), 0xffff, "UDP checksum");
        assert_ne!(word(udp, 6), 0, "a checksum, not none");
        assert_eq!(udp[8..24], packet.header);
        assert!(udp[24..].iter().all(|&byte| byte == 0));
    }

    /// Look at a value on its way.
    trait Also: Sized {
        fn also(self, look: impl FnOnce(&Self)) -> Self {
            look(&self);
            self
        }
    }
    impl<T> Also for T {}

    #[test]
    fn overheads_are_those_of_ethernet() {
        assert_eq!((overhead(true), overhead(false)), (46, 66));
        assert_eq!((most_payload(true), most_payload(false)), (65_507, 65_527));
    }

    #[test]
    fn a_frame_has_its_fields_in_their_places() {
        let ends = ends("198.18.0.1".parse().unwrap(), 1024, None);
        let packet = Packet {
            source_port: 1024,
            to: "198.18.0.2".parse().unwrap(),
            payload: 16,
            header: [0; LEN],
        };
        let mut frame = Vec::new();
        Builder::new(&ends).build(&mut frame, &packet);
        // Its checksums were added up by hand.
        let expected = [
            2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
            0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 17, 0xae, 0x99, 198, 18, 0, 1, 198, 18, 0,
            2, // IP
            4, 0, 4, 0, 0, 24, 0x6b, 0x96, // UDP
        ];
        assert_eq!(frame[..42], expected);
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let ends = ends("0.0.0.0".parse().unwrap(), 0, None);
        let mut header = [0; LEN];
        // With it the sum of all is 0xffff.
        header[..2].copy_from_slice(&(u16::MAX - 17 - 2 * 24).to_be_bytes());
        let to = "0.0.0.0".parse().unwrap();
        let packet = Packet { source_port: 0, to, payload: 16, header };
        let mut frame = Vec::new();
        Builder::new(&ends).build(&mut frame, &packet);
        assert_eq!(word(&frame, 14 + 20 + 6), 0xffff);
        check(&frame, &ends, &packet);
    }

    #[test]
    fn ethernet_addresses_have_six_bytes() {
        assert_eq!("02:00:00:0a:BC:ff".parse(), Ok(Mac([2, 0, 0, 10, 0xbc, 255])));
        assert!(Mac([0x33, 0x33, 0, 0, 0, 1]).is_group() && !MAC.is_group());
        for text in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:1", "02-00", "+2:0"] {
            assert!(text.parse::<Mac>().is_err_and(|why| why.contains("six bytes")), "{text}");
        }
    }

    /// Source port, size of the payload, and header.
    type Drawn = (u16, u16, [u8; LEN]);

    fn packet() -> impl Strategy<Value = Drawn> {
        (any::<u16>(), 16_u16..=9000, any::<[u8; LEN]>())
    }

    /// One after the other in the same memory, as the sender builds them.
    fn build_and_check(ends: &Ends, packets: Vec<(Drawn, impl Into<IpAddr>)>) {
        let builder = Builder::new(ends);
        let mut frame = Vec::new();
        for ((source_port, payload, header), to) in packets {
            let packet = Packet { source_port, to: to.into(), payload, header };
            builder.build(&mut frame, &packet);
            check(&frame, ends, &packet);
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_what_a_receiver_reads_of_ipv4(
            from: [u8; 4], port: u16, vlan in proptest::option::of(0..=MOST_VLAN),
            packets in proptest::collection::vec((packet(), any::<[u8; 4]>()), 1..5)
        ) {
            build_and_check(&ends(from.into(), port, vlan), packets);
        }

        #[test]
        fn what_is_built_is_what_a_receiver_reads_of_ipv6(
            from: [u8; 16], port: u16, vlan in proptest::option::of(0..=MOST_VLAN),
            packets in proptest::collection::vec((packet(), any::<[u8; 16]>()), 1..5)
        ) {
            build_and_check(&ends(from.into(), port, vlan), packets);
        }

        #[test]
        fn what_is_built_is_read_back(
            from: [u8; 4], from6: [u8; 16], ipv4: bool, port: u16, packet in packet(), kept in 24_usize..200
        ) {
            let from = if ipv4 { IpAddr::from(from) } else { from6.into() };
            let ends = ends(from, port, None);
            let (source_port, payload, header) = packet;
            let packet = Packet { source_port, to: from, payload, header };
            let mut frame = Vec::new();
            Builder::new(&ends).build(&mut frame, &packet);
            let network = &frame[ETHERNET.into()..];
            let kept = (usize::from(headers(ipv4)) + kept).min(network.len());
            let found = read(&network[..kept]).unwrap();
            prop_assert_eq!(found.from, (from, source_port).into());
            prop_assert_eq!(found.to, (from, port).into());
            prop_assert_eq!((found.bytes, &found.payload[..LEN]), (payload, &header[..]));
            // A fragment, and another protocol, are none.
            let mut other = network.to_vec();
            other[if ipv4 { 9 } else { 6 }] = 6;
            prop_assert_eq!(read(&other), None);
            if ipv4 {
                frame[usize::from(ETHERNET) + 6] = 0x20;
                prop_assert_eq!(read(&frame[ETHERNET.into()..]), None);
            }
        }

        #[test]
        fn any_bytes_are_safe(mut bytes: Vec<u8>, ipv4: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if ipv4 { 0x40 } else { 0x60 } | *first & 0xf;
            }
            if let Some(found) = read(&bytes) {
                prop_assert!(found.payload.len() <= found.bytes.into());
            }
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,20}") {
            if let Ok(Mac(bytes)) = text.parse() {
                let again = bytes.map(|byte| format!("{byte:02x}")).join(":");
                prop_assert_eq!(again, text.to_lowercase());
            }
        }
    }
}
