// SPDX-License-Identifier: GPL-2.0-or-later
//! The stamp at the start of each UDP payload, and how it is read back.
//!
//! Version 1, 18 bytes, network byte order. The size is what the payload of the smallest Ethernet
//! frame holds (64 bytes with checksum, IPv4), so even those packets are accounted for.
//!
//! | offset | bytes | field                                                             |
//! | ------ | ----- | ----------------------------------------------------------------- |
//! | 0      | 1     | magic, 0x5b                                                       |
//! | 1      | 1     | version, 1                                                        |
//! | 2      | 2     | run: tells this transmission from packets of an earlier one       |
//! | 4      | 2     | flow: 0 for the first source port                                 |
//! | 6      | 4     | sequence over all flows, from 0                                   |
//! | 10     | 8     | send time, nanoseconds since 1970 of the sender's `CLOCK_REALTIME` |
//!
//! Bytes after the header are zero and carry no meaning. The 16-byte header of the kernel's pktgen
//! (magic, sequence from 1, seconds, microseconds) is read too, as run 0 and flow 0.

/// Bytes of the header, and so the smallest payload that can be sent.
pub const LEN: usize = 18;

const MAGIC: u8 = 0x5b;
const VERSION: u8 = 1;
const PKTGEN_MAGIC: u32 = 0xbe9b_e955;
const PKTGEN_LEN: usize = 16;

/// What a payload says about its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which transmission the packet belongs to.
    pub run: u16,
    /// Which flow of it.
    pub flow: u16,
    /// Place in the transmission, from 0, over all flows.
    pub sequence: u32,
    /// When the packet was sent: nanoseconds since 1970, sender's clock.
    pub sent_ns: u64,
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
        payload[1] = VERSION;
        payload[2..4].copy_from_slice(&self.run.to_be_bytes());
        payload[4..6].copy_from_slice(&self.flow.to_be_bytes());
        payload[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        payload[10..18].copy_from_slice(&self.sent_ns.to_be_bytes());
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

    fn read_own(version: Option<u8>, payload: &[u8]) -> Result<Self, Foreign> {
        match version {
            None => return Err(Foreign::Short),
            Some(VERSION) => {}
            Some(_) => return Err(Foreign::Version),
        }
        Ok(Self {
            run: u16::from_be_bytes(field(payload, 2)?),
            flow: u16::from_be_bytes(field(payload, 4)?),
            sequence: u32::from_be_bytes(field(payload, 6)?),
            sent_ns: u64::from_be_bytes(field(payload, 10)?),
        })
    }

    fn read_pktgen(payload: &[u8]) -> Result<Self, Foreign> {
        if u32::from_be_bytes(field(payload, 0)?) != PKTGEN_MAGIC {
            return Err(Foreign::Magic);
        }
        if payload.len() < PKTGEN_LEN {
            return Err(Foreign::Short);
        }
        let seconds = u64::from(u32::from_be_bytes(field(payload, 8)?));
        let micros = u64::from(u32::from_be_bytes(field(payload, 12)?));
        Ok(Self {
            run: 0,
            flow: 0,
            // pktgen counts from 1; a raw 0 lands far outside any expected range.
            sequence: u32::from_be_bytes(field(payload, 4)?).wrapping_sub(1),
            sent_ns: seconds * 1_000_000_000 + micros * 1_000,
        })
    }
}

fn field<const N: usize>(payload: &[u8], at: usize) -> Result<[u8; N], Foreign> {
    payload.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Foreign::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: Header =
        Header { run: 0x1234, flow: 7, sequence: 0x0102_0304, sent_ns: 0x1122_3344_5566_7788 };

    #[test]
    fn layout_is_as_documented() {
        let mut bytes = [0; LEN];
        SAMPLE.write(&mut bytes);
        assert_eq!(
            bytes,
            [0x5b, 1, 0x12, 0x34, 0, 7, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]
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
        bytes[1] = 2;
        assert_eq!(Header::read(&bytes), Err(Foreign::Version));
    }

    #[test]
    fn pktgen_header_is_read() {
        let mut bytes = Vec::new();
        for word in [PKTGEN_MAGIC, 1, 1_700_000_000, 999_999] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        let header = Header::read(&bytes).unwrap();
        assert_eq!(header.sequence, 0);
        assert_eq!(header.sent_ns, 1_700_000_000_999_999_000);
        assert_eq!(Header::read(&bytes[..15]), Err(Foreign::Short));
        bytes[0] = 0;
        assert_eq!(Header::read(&bytes), Err(Foreign::Magic));
    }

    proptest! {
        #[test]
        fn written_is_read_back(run: u16, flow: u16, sequence: u32, sent_ns: u64, tail: Vec<u8>) {
            let header = Header { run, flow, sequence, sent_ns };
            let mut bytes = [0; LEN];
            header.write(&mut bytes);
            let payload = [&bytes[..], &tail[..]].concat();
            prop_assert_eq!(Header::read(&payload), Ok(header));
        }

        #[test]
        fn any_bytes_are_safe(payload: Vec<u8>) {
            if let Ok(header) = Header::read(&payload) {
                prop_assert!(payload.len() >= PKTGEN_LEN);
                if payload[0] == MAGIC {
                    let mut bytes = [0; LEN];
                    header.write(&mut bytes);
                    prop_assert_eq!(&bytes[..], &payload[..LEN]);
                }
            }
        }
    }
}
