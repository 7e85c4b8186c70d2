// SPDX-License-Identifier: GPL-2.0-or-later
//! The sender: numbered, stamped packets on an absolute schedule.
//!
//! [`plan`] says what to send, the loop in `sender` keeps the times, and an [`outlet`] gives packets
//! to the kernel: [`udp`] by the stack, [`frames`] from a device.

pub mod frames;
pub mod outlet;
pub mod plan;
mod sender;
pub mod udp;

use std::sync::atomic::AtomicBool;

use crate::report::SendReport;

use frames::Frames;
use outlet::Outlet;
pub use plan::{Device, Plan, Txtime, frame_overhead, most_bytes};
use sender::Sender;
use udp::Udp;

/// Send as planned until done, out of time, or told to stop.
///
/// # Errors
/// In one line why a socket or a device could not be opened. Refused packets are no error but part
/// of the report.
///
/// # Panics
/// If packets are to be segmented, and have not one size.
pub fn run(plan: Plan, stop: &AtomicBool) -> Result<SendReport, String> {
    let outlet: Box<dyn Outlet> = match &plan.device {
        Some(device) => Box::new(Frames::open(&plan, device)?),
        None => Box::new(Udp::open(&plan)?),
    };
    Ok(Sender::new(plan, outlet, stop).run())
}
