// SPDX-License-Identifier: GPL-2.0-or-later
//! How this process runs: its priority, its CPU, its memory, and what kept it from running.

use std::fs;
use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::unistd::Pid;
use serde::Serialize;

/// Of `/proc/sys/kernel`: real-time tasks may run so long in each period, −1 without a limit.
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const RT_PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";
/// What of the stack may be needed, bytes.
const STACK: usize = 256 << 10;

/// A real-time scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_FIFO`: runs until it waits.
    Fifo,
    /// `SCHED_RR`: takes turns with others of its priority.
    RoundRobin,
}

/// How it shall run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Policy and priority; `None` leaves it as it is, and memory unlocked.
    pub realtime: Option<(Policy, u8)>,
    /// The CPU to run on; `None`: any.
    pub cpu: Option<usize>,
}

/// How it ran, of the time since it was set up.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `fifo` or `rr` and its priority; null without.
    pub realtime: Option<String>,
    /// The CPU that it was bound to; null if to none.
    pub cpu: Option<usize>,
    /// Real-time tasks may run so long in each period, microseconds; -1: without a limit.
    pub rt_runtime_us: Option<i64>,
    /// That period, microseconds.
    pub rt_period_us: Option<i64>,
    /// Page faults that needed no disk.
    pub minor_faults: i64,
    /// Page faults that did.
    pub major_faults: i64,
    /// How often another task took the CPU before it waited.
    pub involuntary_switches: i64,
}

/// A process that was set up.
pub struct Process {
    plan: Plan,
    before: Usage,
}

impl Process {
    /// Set it up.
    ///
    /// # Errors
    /// In one line what the kernel refused, and how to mend it.
    pub fn set_up(plan: Plan) -> Result<Self, String> {
        if let Some(cpu) = plan.cpu {
            bind(cpu)?;
        }
        if let Some((policy, priority)) = plan.realtime {
            mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
                .map_err(|error| refused("lock its memory", &error.into(), "CAP_IPC_LOCK"))?;
            touch_stack();
            schedule(policy, priority)
                .map_err(|error| refused("run in real time", &error, "CAP_SYS_NICE"))?;
        }
        let before = usage()?;
        Ok(Self { plan, before })
    }

    /// What happened to it since.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn report(&self) -> Result<Report, String> {
        let after = usage()?;
        let limit = |file| fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        let realtime = self.plan.realtime.map(|(policy, priority)| match policy {
            Policy::Fifo => format!("fifo {priority}"),
            Policy::RoundRobin => format!("rr {priority}"),
        });
        let limited = realtime.is_some();
        Ok(Report {
            realtime,
            cpu: self.plan.cpu,
            rt_runtime_us: limited.then(|| limit(RT_RUNTIME)).flatten(),
            rt_period_us: limited.then(|| limit(RT_PERIOD)).flatten(),
            minor_faults: after.minor_page_faults() - self.before.minor_page_faults(),
            major_faults: after.major_page_faults() - self.before.major_page_faults(),
            involuntary_switches: after.involuntary_context_switches()
                - self.before.involuntary_context_switches(),
        })
    }
}

/// Take `fifo:50` or `rr:50`.
///
/// # Errors
/// What was expected.
pub fn realtime(text: &str) -> Result<(Policy, u8), String> {
    let expected = || "expected fifo:PRIORITY or rr:PRIORITY, 1 to 99, such as fifo:50".to_owned();
    let (name, priority) = text.split_once(':').ok_or_else(expected)?;
    let policy = match name {
        "fifo" => Policy::Fifo,
        "rr" => Policy::RoundRobin,
        _ => return Err(expected()),
    };
    let priority = priority.parse().ok().filter(|number| (1..=99).contains(number));
    Ok((policy, priority.ok_or_else(expected)?))
}

fn bind(cpu: usize) -> Result<(), String> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus))
        .map_err(|error| format!("cannot run on CPU {cpu}: {error}; is it there, and allowed?"))
}

fn schedule(policy: Policy, priority: u8) -> io::Result<()> {
    let number = match policy {
        Policy::Fifo => libc::SCHED_FIFO,
        Policy::RoundRobin => libc::SCHED_RR,
    };
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the pointer is to a whole structure that outlives the call.
    let result = unsafe { libc::sched_setscheduler(0, number, &raw const param) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Have the pages of the stack before they are needed.
#[allow(clippy::large_stack_arrays, reason = "it is the stack that is to be there")]
fn touch_stack() {
    let room = std::hint::black_box([1_u8; STACK]);
    std::hint::black_box(room.iter().step_by(4096).map(|&byte| u32::from(byte)).sum::<u32>());
}

fn usage() -> Result<Usage, String> {
    getrusage(UsageWho::RUSAGE_SELF).map_err(|error| format!("no resource usage: {error}"))
}

fn refused(what: &str, error: &io::Error, capability: &str) -> String {
    format!("cannot {what}: {error}; run it as root, or with {capability}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_from_1_to_99() {
        assert_eq!(realtime("fifo:50"), Ok((Policy::Fifo, 50)));
        assert_eq!(realtime("rr:99"), Ok((Policy::RoundRobin, 99)));
        for text in ["fifo", "fifo:0", "fifo:100", "other:1", "rr:-1", ""] {
            assert!(realtime(text).is_err_and(|error| error.contains("such as fifo:50")), "{text}");
        }
    }

    #[test]
    fn a_process_tells_of_its_faults() {
        let process = Process::set_up(Plan::default()).unwrap();
        let fresh = vec![1_u8; 8 << 20];
        std::hint::black_box(&fresh);
        let report = process.report().unwrap();
        assert!(report.minor_faults >= 2048, "{report:?}");
        assert_eq!((report.realtime, report.rt_runtime_us), (None, None));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        let plan = Plan { cpu: Some(1000), ..Plan::default() };
        assert!(Process::set_up(plan).is_err_and(|error| error.contains("CPU 1000")));
    }
}
