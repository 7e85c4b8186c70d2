// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections of a client, and where each of them is. It knows of no socket.
//!
//! A slot holds one connection at a time. Where connections are kept, a transaction is a request and
//! its answer; else a transaction is a connection: connect, request, answer, close. Each transaction
//! that was begun is completed, failed or still under way: `attempted = completed + failed + under
//! way`, and so it is of connections.

use std::collections::VecDeque;

use crate::clock::NS_PER_SEC;
use crate::distribution::Distribution;

/// A slot whose connection failed rests so long: what fails at once would otherwise fail all the time.
pub const REST_NS: u64 = NS_PER_SEC / 100;

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has no connection.
    Idle,
    /// The kernel connects it.
    Connecting,
    /// It is connected, and nothing is under way.
    Ready,
    /// A request is sent, or its answer waited for.
    Exchanging,
    /// The answer is there, and the server is to close the connection.
    Closing,
}

/// A slot, and when it came where it is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    stage: Stage,
    /// When this stage began.
    since_ns: u64,
    /// When the transaction was due and begun, and the request was first sent.
    due_ns: u64,
    begun_ns: u64,
    asked_ns: u64,
}

/// How many of something there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Begun.
    pub attempted: u64,
    /// Of these, brought to their end.
    pub completed: u64,
    /// Of these, failed.
    pub failed: u64,
}

impl Tally {
    /// Neither completed nor failed.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.attempted - self.completed - self.failed
    }
}

/// Times of transactions.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// From a connection's beginning until it was there.
    pub connect: Distribution,
    /// From a request until its answer was whole.
    pub request: Distribution,
    /// From a transaction's beginning until its answer was whole.
    pub transaction: Distribution,
    /// From when a transaction was due until its answer was whole.
    pub since_due: Distribution,
}

/// All slots.
pub struct Pool {
    /// Whether connections are kept for further requests.
    kept: bool,
    slots: Vec<Slot>,
    /// Slots that may begin a transaction.
    ready: VecDeque<usize>,
    /// Slots without a connection, until when they rest; kept connections begin here.
    resting: VecDeque<(u64, usize)>,
    transactions: Tally,
    connections: Tally,
    times: Times,
}

impl Pool {
    /// So many slots; `kept`: their connections are made first and then kept.
    #[must_use]
    pub fn new(size: usize, kept: bool) -> Self {
        let none = Slot { stage: Stage::Idle, since_ns: 0, due_ns: 0, begun_ns: 0, asked_ns: 0 };
        Self {
            kept,
            slots: vec![none; size],
            ready: if kept { VecDeque::new() } else { (0..size).collect() },
            resting: if kept { (0..size).map(|slot| (0, slot)).collect() } else { VecDeque::new() },
            transactions: Tally::default(),
            connections: Tally::default(),
            times: Times::default(),
        }
    }

    /// Transactions.
    #[must_use]
    pub fn transactions(&self) -> Tally {
        self.transactions
    }

    /// Connections; those that are there are completed.
    #[must_use]
    pub fn connections(&self) -> Tally {
        self.connections
    }

    /// Their times.
    #[must_use]
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// Where a slot is.
    #[must_use]
    pub fn stage(&self, slot: usize) -> Stage {
        self.slots[slot].stage
    }

    /// A slot that may begin a transaction.
    #[must_use]
    pub fn next_ready(&self) -> Option<usize> {
        self.ready.front().copied()
    }

    /// Give a slot that rests and whose rest is over, and take it from those that rest.
    pub fn rested(&mut self, now_ns: u64) -> Option<usize> {
        let &(until_ns, slot) = self.resting.front()?;
        (until_ns <= now_ns).then(|| self.resting.pop_front())?;
        Some(slot)
    }

    /// When the next rest is over.
    #[must_use]
    pub fn rests_until(&self) -> Option<u64> {
        self.resting.front().map(|&(until_ns, _)| until_ns)
    }

    /// A slot whose rest is over may be used again (where connections are not kept).
    pub fn release(&mut self, slot: usize) {
        assert!(!self.kept && self.slots[slot].stage == Stage::Idle, "it has no connection");
        self.ready.push_back(slot);
    }

    /// Take the next slot for a transaction: it is [`Stage::Idle`] or, of kept connections,
    /// [`Stage::Ready`], which then is exchanging.
    pub fn begin(&mut self, due_ns: u64, now_ns: u64) -> Option<usize> {
        let slot = self.ready.pop_front()?;
        self.transactions.attempted += 1;
        let it = &mut self.slots[slot];
        (it.due_ns, it.begun_ns) = (due_ns, now_ns);
        if self.kept {
            assert_eq!(it.stage, Stage::Ready, "its connection is there");
            (it.stage, it.since_ns, it.asked_ns) = (Stage::Exchanging, now_ns, now_ns);
        }
        Some(slot)
    }

    /// A slot's connection is begun.
    pub fn connecting(&mut self, slot: usize, now_ns: u64) {
        let it = &mut self.slots[slot];
        assert_eq!(it.stage, Stage::Idle, "it has no connection");
        (it.stage, it.since_ns) = (Stage::Connecting, now_ns);
        self.connections.attempted += 1;
    }

    /// A slot's connection is there: kept ones are ready, others exchange at once.
    pub fn connected(&mut self, slot: usize, now_ns: u64) {
        let it = &mut self.slots[slot];
        assert_eq!(it.stage, Stage::Connecting, "it connects");
        self.times.connect.add(now_ns.saturating_sub(it.since_ns));
        self.connections.completed += 1;
        it.since_ns = now_ns;
        if self.kept {
            it.stage = Stage::Ready;
            self.ready.push_back(slot);
        } else {
            (it.stage, it.asked_ns) = (Stage::Exchanging, now_ns);
        }
    }

    /// A slot has its whole answer; `closes`: it is done once the server has closed the connection.
    pub fn answered(&mut self, slot: usize, closes: bool, now_ns: u64) {
        let it = &mut self.slots[slot];
        assert_eq!(it.stage, Stage::Exchanging, "it has asked");
        self.times.request.add(now_ns.saturating_sub(it.asked_ns));
        self.times.transaction.add(now_ns.saturating_sub(it.begun_ns));
        self.times.since_due.add(now_ns.saturating_sub(it.due_ns));
        it.since_ns = now_ns;
        if closes {
            it.stage = Stage::Closing;
        } else {
            self.completed(slot);
        }
    }

    /// The server has closed a connection whose answer is there.
    pub fn closed(&mut self, slot: usize) {
        assert_eq!(self.slots[slot].stage, Stage::Closing, "its answer is there");
        self.completed(slot);
    }

    fn completed(&mut self, slot: usize) {
        self.transactions.completed += 1;
        self.slots[slot].stage = if self.kept { Stage::Ready } else { Stage::Idle };
        self.ready.push_back(slot);
    }

    /// A slot's connection is of no use any more, and rests; what was under way on it has failed.
    pub fn failed(&mut self, slot: usize, now_ns: u64) {
        match self.slots[slot].stage {
            Stage::Connecting => {
                self.connections.failed += 1;
                self.transactions.failed += u64::from(!self.kept);
            }
            Stage::Exchanging | Stage::Closing => self.transactions.failed += 1,
            // It cannot begin a transaction any more.
            Stage::Ready => self.ready.retain(|&other| other != slot),
            Stage::Idle => panic!("slot {slot} has no connection"),
        }
        self.slots[slot].stage = Stage::Idle;
        self.resting.push_back((now_ns.saturating_add(REST_NS), slot));
    }

    /// Slots that have waited for longer than `timeout_ns`.
    #[must_use]
    pub fn expired(&self, timeout_ns: u64, now_ns: u64) -> Vec<usize> {
        let waits = |stage| !matches!(stage, Stage::Idle | Stage::Ready);
        let long = |slot: &Slot| now_ns.saturating_sub(slot.since_ns) > timeout_ns;
        let all = self.slots.iter().enumerate();
        all.filter(|(_, slot)| waits(slot.stage) && long(slot)).map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What may happen to the slots, on the slot that comes next.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Begin,
        Advance(usize),
        Fail(usize),
        Rest,
    }

    fn events() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => Just(Event::Begin),
            6 => (0_usize..8).prop_map(Event::Advance),
            2 => (0_usize..8).prop_map(Event::Fail),
            2 => Just(Event::Rest),
        ]
    }

    fn apply(pool: &mut Pool, event: Event, closes: bool, now_ns: u64) {
        match event {
            Event::Begin => {
                let begun = pool.begin(now_ns - 1, now_ns);
                if let Some(slot) = begun.filter(|_| !pool.kept) {
                    pool.connecting(slot, now_ns);
                }
            }
            Event::Advance(slot) => match pool.stage(slot) {
                Stage::Connecting => pool.connected(slot, now_ns),
                Stage::Exchanging => pool.answered(slot, closes && !pool.kept, now_ns),
                Stage::Closing => pool.closed(slot),
                Stage::Idle | Stage::Ready => (),
            },
            Event::Fail(slot) => {
                if pool.stage(slot) != Stage::Idle {
                    pool.failed(slot, now_ns);
                }
            }
            Event::Rest => {
                if let Some(slot) = pool.rested(now_ns) {
                    if pool.kept { pool.connecting(slot, now_ns) } else { pool.release(slot) }
                }
            }
        }
    }

    /// Slots of a stage.
    fn of(pool: &Pool, stages: &[Stage]) -> u64 {
        pool.slots.iter().filter(|slot| stages.contains(&slot.stage)).count() as u64
    }

    #[test]
    fn a_connection_of_its_own_has_three_times() {
        let mut pool = Pool::new(1, false);
        let slot = pool.begin(100, 150).unwrap();
        pool.connecting(slot, 150);
        pool.connected(slot, 350);
        pool.answered(slot, true, 400);
        assert_eq!(pool.transactions().under_way(), 1);
        assert_eq!(pool.next_ready(), None);
        pool.closed(slot);
        assert_eq!((pool.transactions().completed, pool.next_ready()), (1, Some(0)));
        let times = pool.times();
        let found = [&times.connect, &times.request, &times.transaction, &times.since_due]
            .map(|one| one.report().max_ns.unwrap());
        assert_eq!(found, [200, 50, 250, 300]);
    }

    #[test]
    fn a_kept_connection_that_fails_rests_and_is_made_again() {
        let mut pool = Pool::new(1, true);
        assert_eq!(pool.begin(0, 0), None);
        assert_eq!(pool.rested(0), Some(0));
        pool.connecting(0, 0);
        pool.connected(0, 5);
        pool.failed(0, 10);
        // Nothing was under way on it, and it was there.
        assert_eq!((pool.transactions().failed, pool.connections().failed), (0, 0));
        assert_eq!((pool.begin(11, 11), pool.rested(11)), (None, None));
        assert_eq!(pool.rested(10 + REST_NS), Some(0));
    }

    #[test]
    fn what_waits_too_long_expires() {
        let mut pool = Pool::new(3, false);
        for _ in 0..2 {
            let slot = pool.begin(0, 0).unwrap();
            pool.connecting(slot, 0);
        }
        pool.connected(1, 50);
        assert_eq!(pool.expired(100, 100), [0; 0]);
        assert_eq!(pool.expired(100, 101), [0]);
        assert_eq!(pool.expired(100, 151), [0, 1]);
    }

    proptest! {
        /// Whatever happens, all is accounted for, and each slot is in one place.
        #[test]
        fn accounts_are_closed(
            kept: bool, closes: bool, happens in prop::collection::vec(events(), 0..300)
        ) {
            let mut pool = Pool::new(8, kept);
            for (number, event) in happens.into_iter().enumerate() {
                apply(&mut pool, event, closes, 1 + number as u64 * REST_NS / 4);
                let busy = [Stage::Exchanging, Stage::Closing];
                let (made, done) = (pool.connections(), pool.transactions());
                prop_assert_eq!(made.under_way(), of(&pool, &[Stage::Connecting]));
                let with = if kept { 0 } else { of(&pool, &[Stage::Connecting]) };
                prop_assert_eq!(done.under_way(), of(&pool, &busy) + with);
                let able = if kept { Stage::Ready } else { Stage::Idle };
                prop_assert!(pool.ready.iter().all(|&slot| pool.stage(slot) == able));
                let mut all = pool.ready.iter().copied().collect::<Vec<_>>();
                all.extend(pool.resting.iter().map(|&(_, slot)| slot));
                let idle = all.len() as u64;
                all.sort_unstable();
                all.dedup();
                prop_assert_eq!(all.len() as u64, idle);
                prop_assert_eq!(idle, of(&pool, &[Stage::Idle, Stage::Ready]));
                let whole = pool.times().request.report().count;
                prop_assert!(whole >= done.completed && whole <= done.attempted);
            }
        }
    }
}
