// SPDX-License-Identifier: GPL-2.0-or-later
//! Any payload is either foreign or reads back to the bytes it came from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skblab_traffic::header::{Header, LEN};

fuzz_target!(|payload: &[u8]| {
    if let Ok(header) = Header::read(payload) {
        if payload.len() >= LEN && payload[0] == 0x5b {
            let mut bytes = [0; LEN];
            header.write(&mut bytes);
            assert_eq!(bytes[..], payload[..LEN]);
        }
    }
});
