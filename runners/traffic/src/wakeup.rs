// SPDX-License-Identifier: GPL-2.0-or-later
//! How late this machine wakes a task that sleeps until a given time: what it adds to any measurement.
//!
//! A task sleeps by `clock_nanosleep` until each multiple of a period, as cyclictest does, and looks at
//! the clock when it runs again. No packet is sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{NS_PER_SEC, monotonic_ns};
use crate::distribution::{self, Distribution};
use crate::pace::wait_until;
use crate::report::{SCHEMA, Stopped, WakeupReport};

/// How often to sleep, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Sleeps per second.
    pub rate: u32,
    /// How long to do it.
    pub limit: Duration,
}

/// Sleep until each of the times, and count by how much later it was.
#[must_use]
pub fn run(plan: &Plan, stop: &AtomicBool) -> WakeupReport {
    let mut late = Distribution::default();
    let start_ns = monotonic_ns();
    let limit_ns = u64::try_from(plan.limit.as_nanos()).unwrap_or(u64::MAX);
    let (mut number, mut missed) = (1_u64, 0);
    let at_ns = |number: u64| {
        let after = u128::from(number) * u128::from(NS_PER_SEC) / u128::from(plan.rate);
        start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    };
    let stopped_by = loop {
        let due_ns = at_ns(number);
        if due_ns - start_ns > limit_ns {
            break Stopped::Seconds;
        }
        wait_until(due_ns, 0, stop);
        if stop.load(Ordering::Relaxed) {
            break Stopped::Signal;
        }
        let now_ns = monotonic_ns();
        late.add(now_ns.saturating_sub(due_ns));
        number += 1;
        // Times that are over already are no sleeps: what is late once is counted once.
        while at_ns(number) <= now_ns {
            number += 1;
            missed += 1;
        }
    };
    WakeupReport {
        schema: SCHEMA,
        role: "wakeup",
        rate: plan.rate,
        missed,
        late: late.report(),
        percentile_error: distribution::ERROR,
        stopped_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_slept_for_or_missed() {
        let plan = Plan { rate: 1000, limit: Duration::from_millis(50) };
        let report = run(&plan, &AtomicBool::new(false));
        assert_eq!(report.late.negative, 0);
        let all = report.late.count + report.missed;
        // A machine that stands still at the end misses some beyond it.
        assert!(report.late.count > 0 && all >= 50, "{report:?}");
        assert!(matches!(report.stopped_by, Stopped::Seconds));
    }

    #[test]
    fn a_signal_ends_it() {
        let plan = Plan { rate: 1, limit: Duration::from_secs(1000) };
        let report = run(&plan, &AtomicBool::new(true));
        assert!(matches!(report.stopped_by, Stopped::Signal));
        assert_eq!(report.late.count, 0);
    }
}
