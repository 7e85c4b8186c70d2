// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses that connections come from, in turn.
//!
//! One address has as many ports as `net.ipv4.ip_local_port_range` has, to one address and port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// One address, or all from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    first: IpAddr,
    last: IpAddr,
    next: IpAddr,
}

impl Sources {
    /// Whether they are of IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// The next of them; behind the last comes the first.
    pub fn turn(&mut self) -> IpAddr {
        let now = self.next;
        self.next = match now {
            _ if now == self.last => self.first,
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() + 1).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() + 1).into(),
        };
        now
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "expected an address, or two as in 198.18.1.1-198.18.1.9, the smaller one first";
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| expected);
        let (first, last) = (address(first)?, address(last)?);
        if first.is_ipv4() != last.is_ipv4() || last < first {
            return Err(expected.to_owned());
        }
        Ok(Self { first, last, next: first })
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(into, "{}", self.first);
        }
        write!(into, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn they_take_turns() {
        for (text, turns) in [
            ("192.0.2.1", vec!["192.0.2.1", "192.0.2.1"]),
            (
                "192.0.2.254-192.0.3.0",
                vec!["192.0.2.254", "192.0.2.255", "192.0.3.0", "192.0.2.254"],
            ),
            ("2001:db8::f-2001:db8::10", vec!["2001:db8::f", "2001:db8::10", "2001:db8::f"]),
            ("255.255.255.255", vec!["255.255.255.255", "255.255.255.255"]),
        ] {
            let mut sources = text.parse::<Sources>().unwrap();
            assert_eq!(sources.to_string(), text);
            for turn in turns {
                assert_eq!(sources.turn().to_string(), turn);
            }
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "-", "192.0.2.9-192.0.2.1", "192.0.2.1-2001:db8::1", "192.0.2.1-", "a"] {
            assert!(text.parse::<Sources>().is_err_and(|why| why.contains("expected")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_has_its_turn(first: u32, more in 0_u32..500) {
            let last = first.saturating_add(more);
            let text = format!("{}-{}", Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last));
            let mut sources = text.parse::<Sources>().unwrap();
            for _ in 0..2 {
                for bits in first..=last {
                    prop_assert_eq!(sources.turn(), IpAddr::from(Ipv4Addr::from_bits(bits)));
                }
            }
        }
    }
}
