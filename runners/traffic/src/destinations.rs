// SPDX-License-Identifier: GPL-2.0-or-later
//! Where packets go: to one address, or each to one of its own in a range.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rand_distr::{Distribution, Uniform};

use crate::generator::Random;

/// Addresses from one to another, both of them included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// As numbers, of IPv4.
    V4(Uniform<u32>),
    /// As numbers, of IPv6.
    V6(Uniform<u128>),
}

impl Range {
    /// Whether its addresses are of IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        matches!(self, Self::V4(_))
    }

    /// One of its addresses, each as often as any other.
    pub fn draw(&self, random: &mut Random) -> IpAddr {
        match self {
            Self::V4(range) => Ipv4Addr::from_bits(range.sample(random)).into(),
            Self::V6(range) => Ipv6Addr::from_bits(range.sample(random)).into(),
        }
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected FIRST-LAST, two addresses such as 198.18.1.0-198.18.1.255";
        let (first, last) = text.split_once('-').ok_or(expected)?;
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| expected);
        match (address(first)?, address(last)?) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Uniform::new_inclusive(first.to_bits(), last.to_bits()).map(Self::V4)
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Uniform::new_inclusive(first.to_bits(), last.to_bits()).map(Self::V6)
            }
            _ => return Err("FIRST and LAST are of two families".to_owned()),
        }
        .map_err(|_| "FIRST is behind LAST".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use std::collections::HashSet;

    fn drawn(text: &str, seed: u64, count: usize) -> Vec<IpAddr> {
        let range = text.parse::<Range>().unwrap();
        let mut random = Random::seed_from_u64(seed);
        (0..count).map(|_| range.draw(&mut random)).collect()
    }

    #[test]
    fn every_address_of_a_range_comes_and_no_other() {
        for (text, first, last) in [
            ("198.18.0.254-198.18.1.1", "198.18.0.254", "198.18.1.1"),
            ("2001:db8::fffe-2001:db8::1:1", "2001:db8::fffe", "2001:db8::1:1"),
        ] {
            let found = drawn(text, 1, 400).into_iter().collect::<HashSet<_>>();
            assert_eq!(found.len(), 4, "{found:?}");
            assert!(
                found.contains(&first.parse().unwrap()) && found.contains(&last.parse().unwrap())
            );
        }
    }

    #[test]
    fn a_seed_says_which_addresses_come() {
        let text = "2400::-240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(drawn(text, 1, 100), drawn(text, 1, 100));
        assert_ne!(drawn(text, 1, 100), drawn(text, 2, 100));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (text, said) in [
            ("198.18.0.1", "expected FIRST-LAST"),
            ("198.18.0.1-", "expected FIRST-LAST"),
            ("198.18.0.0/24", "expected FIRST-LAST"),
            ("198.18.0.2-198.18.0.1", "FIRST is behind LAST"),
            ("198.18.0.1-2001:db8::1", "two families"),
        ] {
            let said_instead = text.parse::<Range>().unwrap_err();
            assert!(said_instead.contains(said), "{text}: {said_instead}");
        }
    }

    proptest! {
        #[test]
        fn an_address_is_between_both_ends(first: u32, last: u32, seed: u64) {
            let (first, last) = (first.min(last), first.max(last));
            let text = format!("{}-{}", Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last));
            for address in drawn(&text, seed, 20) {
                let IpAddr::V4(address) = address else { panic!("{address}") };
                prop_assert!((first..=last).contains(&address.to_bits()));
            }
        }

        #[test]
        fn any_text_is_a_range_or_an_error(text in ".{0,40}") {
            let _either = text.parse::<Range>();
        }
    }
}
