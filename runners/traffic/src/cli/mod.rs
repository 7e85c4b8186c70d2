// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of the command line: one module for what has many.

pub mod round_trips;
pub mod send;

use std::time::Duration;

use skblab_traffic::generator::{Named, Unit};

/// Take one time, in nanoseconds.
pub fn interval(text: &str) -> Result<f64, String> {
    let named = Named::parse(text, Unit::Time)?;
    named.generator.constant().ok_or_else(|| "expected one time, such as 1ms".to_owned())
}

/// Take seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected seconds, e.g. 2 or 0.5".to_owned())
}
