// SPDX-License-Identifier: GPL-2.0-or-later
//! What packets leave by: the loop knows only this of sockets and devices.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::errors::Errors;
use crate::report::{DeviceReport, TxtimeReport};

/// A packet of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its place in the transmission, from 0.
    pub number: u64,
    /// Bytes of its UDP payload.
    pub payload: u16,
    /// When it is due, nanoseconds of the monotonic clock.
    pub due_ns: u64,
}

/// What packets leave by.
pub trait Outlet {
    /// Keep a packet for [`Outlet::send`].
    fn add(&mut self, packet: Packet);

    /// Stamp all packets that were kept, give them to the kernel in their order, and account for
    /// each. `over` says whether there is no more time to wait for the kernel.
    fn send(&mut self, account: &mut Account, over: &dyn Fn() -> bool) -> State;

    /// What the device said of all that was sent, if it is one.
    fn device(&self, _account: &Account) -> Option<DeviceReport> {
        None
    }

    /// Wait for packets that have not left, and say what became of their times, if they had any.
    fn times(&mut self, _account: &mut Account) -> Option<TxtimeReport> {
        None
    }
}

/// Whether an outlet can be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there.
    Open,
    /// It will never come back.
    Gone,
}

/// What came of packets.
#[derive(Debug, Default)]
pub struct Account {
    /// Packets the kernel took.
    pub sent: u64,
    /// Packets it refused, or had no more time for.
    pub unsent: u64,
    errors: Errors,
    /// Packets that were refused behind others of a call, which does not say why then.
    unnamed: u64,
}

impl Account {
    /// A call has failed.
    pub fn failed(&mut self, why: Errno) {
        self.errors.add(why, 1);
    }

    /// So many packets were refused.
    pub fn refused(&mut self, packets: u64, why: Errno) {
        if packets == 0 {
            return;
        }
        self.unsent += packets;
        self.errors.add(why, packets);
    }

    /// A packet was refused, and nobody says why.
    pub fn refused_unnamed(&mut self) {
        self.unsent += 1;
        self.unnamed += 1;
    }

    /// Errors by their name.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut named = self.errors.named();
        if self.unnamed > 0 {
            named.insert(UNNAMED.to_owned(), self.unnamed);
        }
        named
    }
}

/// Of packets that were refused within a batch.
const UNNAMED: &str = "unnamed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_their_names() {
        let mut account = Account::default();
        assert!(account.errors().is_empty());
        account.failed(Errno::ECONNREFUSED);
        account.refused(3, Errno::ENOBUFS);
        account.refused_unnamed();
        assert_eq!(account.unsent, 4);
        let expected = [("ECONNREFUSED", 1), ("ENOBUFS", 3), ("unnamed", 1)];
        assert_eq!(account.errors(), expected.map(|(name, n)| (name.to_owned(), n)).into());
    }
}
