// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures of the records of any number of packets, in bounded memory and on several processors.
//!
//! A file is read in pieces ([`source`]). Whichever processor is free takes the next one and makes
//! columns of it ([`columns`]), then figures ([`digest`]): those that do not depend on the order add up
//! for each processor, and what touches the ends of a piece is joined in the order of the file
//! ([`whole`]). [`times`] is one kind of time, [`late`] finds anomalies, [`order`] counts loss and
//! reordering, [`bins`] is all over time, [`flows`] what each flow has. Everything is in whole numbers, so that the number of
//! processors changes no figure. [`report`] is what is printed.

#![allow(
    clippy::inline_always,
    reason = "what is done for each packet is compiled anew for the caller's instructions"
)]

pub mod bins;
pub mod columns;
pub mod density;
pub mod digest;
pub mod flows;
pub mod late;
pub mod order;
pub mod report;
pub mod source;
pub mod times;
pub mod whole;
pub mod wide;

/// The same bits, as a number without a sign.
#[must_use]
#[inline]
pub const fn unsigned(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

/// The same bits, as a number with a sign.
#[must_use]
#[inline]
pub const fn signed(value: u64) -> i64 {
    i64::from_ne_bytes(value.to_ne_bytes())
}
