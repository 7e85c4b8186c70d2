// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of the command line: one module for what has many.

pub mod round_trips;
pub mod send;
pub mod tcp;

use std::net::SocketAddr;
use std::time::Duration;

use skblab_traffic::generator::{Named, Unit};

/// Take one time, in nanoseconds.
pub fn interval(text: &str) -> Result<f64, String> {
    let named = Named::parse(text, Unit::Time)?;
    named.generator.constant().ok_or_else(|| "expected one time, such as 1ms".to_owned())
}

/// Take where packets go: no packet goes to port 0.
pub fn destination(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address and a port, such as 198.18.0.2:5000 or [2001:2::2]:5000";
    match text.parse::<SocketAddr>() {
        Ok(to) if to.port() == 0 => {
            Err("nothing listens on port 0; expected a port of 1 to 65535".to_owned())
        }
        Ok(to) => Ok(to),
        Err(_) => Err(expected.to_owned()),
    }
}

/// Take seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected seconds, e.g. 2 or 0.5".to_owned())
}
