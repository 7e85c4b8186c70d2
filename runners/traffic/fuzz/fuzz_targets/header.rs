// SPDX-License-Identifier: GPL-2.0-or-later
//! Any payload is foreign for the reason it has, or reads back to the bytes it came from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skblab_traffic::header::{Foreign, Header, LEN};

const PKTGEN: [u8; 4] = [0xbe, 0x9b, 0xe9, 0x55];

fuzz_target!(|payload: &[u8]| match Header::read(payload) {
    Ok(header) if payload[0] == 0x5b => {
        let mut bytes = [0; LEN];
        header.write(&mut bytes);
        assert_eq!(bytes[..], payload[..LEN]);
    }
    Ok(header) => {
        let sequence = (header.sequence as u32).wrapping_add(1).to_be_bytes();
        assert_eq!((&payload[..4], &payload[4..8]), (&PKTGEN[..], &sequence[..]));
        assert_eq!((header.transmission, header.pktgen, payload.len() >= LEN), (0, true, true));
    }
    Err(Foreign::Short) => assert!(payload.len() < LEN),
    Err(Foreign::Magic) => assert!(payload[0] != 0x5b && payload[..4] != PKTGEN),
    Err(Foreign::Version) => assert!(payload[0] == 0x5b && !(0x20..0x23).contains(&payload[1])),
});
