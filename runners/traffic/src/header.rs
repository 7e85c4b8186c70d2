// SPDX-License-Identifier: GPL-2.0-or-later
//! The stamp at the start of each UDP payload, and how it is read back.
//!
//! Version 2, 16 bytes, network byte order. It is as large as pktgen's, and takes its place: even the
//! smallest frames hold it (64 bytes with checksum of IPv4, 82 of IPv6).
//!
//! | offset | bytes | field                                                                |
//! | ------ | ----- | -------------------------------------------------------------------- |
//! | 0      | 1     | magic, 0x5b                                                          |
//! | 1      | 1     | version, 2, times 16, and the sender's clock ([`Clock`])             |
//! | 2      | 2     | transmission: tells it from packets of an earlier one                |
//! | 4      | 6     | sequence over all flows, from 0, the lower 48 bits                   |
//! | 10     | 6     | send time: nanoseconds of that clock, the lower 48 bits              |
//!
//! Whoever reads it takes the number that has those bits and is nearest to what it expects: 78 hours
//! of nanoseconds, and 281 474 976 710 656 packets, are told apart. Bytes after the header are zero
//! and carry no meaning, but in [probes of clocks](crate::clock_probe). probes/bpf/wire.h has the same
//! for BPF. The header of the kernel's pktgen (magic, sequence from 1, seconds, microseconds) is read,
//! too, as transmission 0.

/// Bytes of the header, and so the smallest payload that can be sent.
pub const LEN: usize = 16;

const MAGIC: u8 = 0x5b;
const VERSION: u8 = 2;
const PKTGEN_MAGIC: u32 = 0xbe9b_e955;
/// Bits of a number on the wire, and of pktgen's sequence.
const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;
const PKTGEN_BITS: u32 = 32;

/// Whose nanoseconds a stamp has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_REALTIME`: since 1970, and it may step.
    Realtime = 0,
    /// `CLOCK_TAI`: the same without leap seconds.
    Tai = 1,
    /// `CLOCK_MONOTONIC`: of this boot of the machine alone.
    Monotonic = 2,
}

impl Clock {
    fn of(number: u8) -> Option<Self> {
        [Self::Realtime, Self::Tai, Self::Monotonic].into_iter().find(|&one| one as u8 == number)
    }
}

/// What a payload says about its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which transmission the packet belongs to.
    pub transmission: u16,
    /// Place in the transmission, from 0, over all flows: the lower bits that the header has.
    pub sequence: u64,
    /// Whether it is pktgen's, of which a number has fewer bits.
    pub pktgen: bool,
    /// The clock of the stamp.
    pub clock: Clock,
    /// When the packet was sent: nanoseconds of that clock, the lower 48 bits.
    pub stamp: u64,
}

/// Why a payload is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Fewer bytes than its header needs.
    Short,
    /// Starts with no known magic.
    Magic,
    /// Our magic, but a version this program cannot read.
    Version,
}

impl Header {
    /// Write the header into the first [`LEN`] bytes of a payload.
    pub fn write(&self, payload: &mut [u8; LEN]) {
        payload[0] = MAGIC;
        payload[1] = (VERSION << 4) | self.clock as u8;
        payload[2..4].copy_from_slice(&self.transmission.to_be_bytes());
        payload[4..10].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        payload[10..16].copy_from_slice(&self.stamp.to_be_bytes()[2..]);
    }

    /// Give a header that was written another send time, of its clock.
    pub fn stamp(payload: &mut [u8; LEN], now_ns: u64) {
        payload[10..16].copy_from_slice(&now_ns.to_be_bytes()[2..]);
    }

    /// The send time in full, by a time near it.
    #[must_use]
    pub fn sent_ns(&self, near_ns: u64) -> u64 {
        nearest(self.stamp, BITS, near_ns)
    }

    /// The place in full, by one near it: that of the furthest packet, or 0 for the first one.
    #[must_use]
    pub fn place(&self, near: u64) -> u64 {
        nearest(self.sequence, if self.pktgen { PKTGEN_BITS } else { BITS }, near)
    }

    /// Read the header of a received payload.
    ///
    /// # Errors
    /// Says why the payload is foreign; never panics, whatever the bytes.
    pub fn read(payload: &[u8]) -> Result<Self, Foreign> {
        match payload {
            [] => Err(Foreign::Short),
            [MAGIC, rest @ ..] => Self::read_own(rest.first().copied(), payload),
            _ => Self::read_pktgen(payload),
        }
    }

    fn read_own(kind: Option<u8>, payload: &[u8]) -> Result<Self, Foreign> {
        let kind = kind.ok_or(Foreign::Short)?;
        if kind >> 4 != VERSION {
            return Err(Foreign::Version);
        }
        let clock = Clock::of(kind & 0xf).ok_or(Foreign::Version)?;
        Ok(Self {
            transmission: u16::from_be_bytes(field(payload, 2)?),
            sequence: six(field(payload, 4)?),
            pktgen: false,
            clock,
            stamp: six(field(payload, 10)?),
        })
    }

    fn read_pktgen(payload: &[u8]) -> Result<Self, Foreign> {
        if u32::from_be_bytes(field(payload, 0)?) != PKTGEN_MAGIC {
            return Err(Foreign::Magic);
        }
        let seconds = u64::from(u32::from_be_bytes(field(payload, 8)?));
        let micros = u64::from(u32::from_be_bytes(field(payload, 12)?));
        Ok(Self {
            transmission: 0,
            // pktgen counts from 1; a raw 0 lands far outside any expected range.
            sequence: u32::from_be_bytes(field(payload, 4)?).wrapping_sub(1).into(),
            pktgen: true,
            clock: Clock::Realtime,
            stamp: (seconds * 1_000_000_000 + micros * 1_000) & MASK,
        })
    }
}

/// Of all numbers that end with these bits the one nearest to another.
fn nearest(low: u64, bits: u32, near: u64) -> u64 {
    // Half of the range before it, and as many behind.
    let from = near.saturating_sub(1 << (bits - 1));
    from.wrapping_add(low.wrapping_sub(from) & ((1 << bits) - 1))
}

fn six(bytes: [u8; 6]) -> u64 {
    bytes.iter().fold(0, |number, &byte| (number << 8) | u64::from(byte))
}

fn field<const N: usize>(payload: &[u8], at: usize) -> Result<[u8; N], Foreign> {
    payload.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Foreign::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: Header = Header {
        transmission: 0x1234,
        sequence: 0x0102_0304_0506,
        pktgen: false,
        clock: Clock::Tai,
        stamp: 0x1122_3344_5566,
    };

    #[test]
    fn layout_is_as_documented() {
        let mut bytes = [0; LEN];
        SAMPLE.write(&mut bytes);
        assert_eq!(
            bytes,
            [0x5b, 0x21, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66]
        );
    }

    #[test]
    fn every_cut_is_short() {
        let mut bytes = [0; LEN];
        SAMPLE.write(&mut bytes);
        for len in 0..LEN {
            assert_eq!(Header::read(&bytes[..len]), Err(Foreign::Short), "{len} bytes");
        }
    }

    #[test]
    fn another_version_is_told_apart() {
        let mut bytes = [0; LEN];
        SAMPLE.write(&mut bytes);
        // Version 1, a later one, and a clock that nobody knows.
        for kind in [1, 0x30, 0x23] {
            bytes[1] = kind;
            assert_eq!(Header::read(&bytes), Err(Foreign::Version));
        }
    }

    #[test]
    fn pktgen_header_is_read() {
        let mut bytes = Vec::new();
        for word in [PKTGEN_MAGIC, 1, 1_700_000_000, 999_999] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        let header = Header::read(&bytes).unwrap();
        assert_eq!(header.sequence, 0);
        let near = 1_700_000_001_000_000_000;
        assert_eq!(header.sent_ns(near), 1_700_000_000_999_999_000);
        assert_eq!(Header::read(&bytes[..15]), Err(Foreign::Short));
        bytes[0] = 0;
        assert_eq!(Header::read(&bytes), Err(Foreign::Magic));
    }

    proptest! {
        #[test]
        fn written_is_read_back(
            transmission: u16, sequence in 0..1_u64 << 48, clock in 0_u8..3,
            stamp in 0..1_u64 << 48, tail: Vec<u8>
        ) {
            let clock = Clock::of(clock).unwrap();
            let header = Header { transmission, sequence, pktgen: false, clock, stamp };
            let mut bytes = [0; LEN];
            header.write(&mut bytes);
            let payload = [&bytes[..], &tail[..]].concat();
            prop_assert_eq!(Header::read(&payload), Ok(header));
            Header::stamp(&mut bytes, (1 << 60) + 77);
            prop_assert_eq!(Header::read(&bytes), Ok(Header { stamp: 77, ..header }));
        }

        /// A day before or after, whatever the time is.
        #[test]
        fn a_stamp_is_the_time_nearest_to_ones_own(
            sent in 1_u64 << 50..1 << 62, ahead in -86_400_000_000_000_i64..86_400_000_000_000
        ) {
            let header = Header { stamp: sent & MASK, ..SAMPLE };
            prop_assert_eq!(header.sent_ns(sent.checked_add_signed(ahead).unwrap()), sent);
        }

        /// Also where fewer bits than it has are on the wire.
        #[test]
        fn a_place_is_the_one_nearest_to_the_last(
            place in 1_u64 << 50..1 << 62, ahead in -1_000_000_i64..1_000_000, pktgen: bool
        ) {
            let bits = if pktgen { PKTGEN_BITS } else { BITS };
            let header = Header { sequence: place & ((1 << bits) - 1), pktgen, ..SAMPLE };
            prop_assert_eq!(header.place(place.checked_add_signed(ahead).unwrap()), place);
        }

        #[test]
        fn the_first_place_is_as_it_is_told(sequence in 0..1_u64 << 31) {
            prop_assert_eq!(Header { sequence, pktgen: true, ..SAMPLE }.place(0), sequence);
        }

        #[test]
        fn any_bytes_are_safe(payload: Vec<u8>) {
            if let Ok(header) = Header::read(&payload) {
                prop_assert!(payload.len() >= LEN);
                if payload[0] == MAGIC {
                    let mut bytes = [0; LEN];
                    header.write(&mut bytes);
                    prop_assert_eq!(&bytes[..], &payload[..LEN]);
                }
            }
        }
    }
}
