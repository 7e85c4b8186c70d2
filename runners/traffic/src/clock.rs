// SPDX-License-Identifier: GPL-2.0-or-later
//! The two clocks in use: monotonic for schedules and limits, real time for packet stamps.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub const NS_PER_SEC: u64 = 1_000_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_REALTIME` since 1970, the clock of kernel receive stamps and pktgen.
#[must_use]
pub fn realtime_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("Linux always has these clocks");
    // Neither clock is negative on a machine that runs after 1970.
    u64::try_from(now.tv_sec()).unwrap_or(0) * NS_PER_SEC
        + u64::try_from(now.tv_nsec()).unwrap_or(0)
}

/// A duration in nanoseconds; what is too long becomes the longest.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
