// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures of pieces of a file: those that add up in any order, and the ends of each piece.

use crate::bins::{Bins, Came};
use crate::columns::{Clocks, Columns, Counts, Cut, Layout};
use crate::late::{Limit, Packets, Runs};
use crate::order::{Run, extend};
use crate::times::{CHUNK, Extent, Times, range};
use crate::unsigned;
use crate::wide::Wide;

/// What of a file is looked at, and for what.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it is made of.
    pub layout: Layout,
    /// What is known of its clocks.
    pub clocks: Clocks,
    /// Its packets have numbers.
    pub numbered: bool,
    /// Which packets.
    pub cut: Cut,
    /// What is an anomaly; without a latency there is none.
    pub limits: Vec<Limit>,
    /// Bins over time, at most.
    pub most_bins: usize,
    /// Where the first of them begins.
    pub origin_ns: i64,
    /// Also by flow.
    pub by_flow: bool,
    /// Nothing but latencies: to know their median.
    pub only_latency: bool,
}

impl Wanted {
    /// Whether it is known how long a packet took.
    #[must_use]
    pub fn has_latency(&self) -> bool {
        self.clocks.sent && self.clocks.one
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// New packets.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// When the first came.
    pub first_ns: i64,
    /// When the last came.
    pub last_ns: i64,
    /// Their latency, where that is not negative.
    pub latency: Extent,
    /// Its squares, added up.
    pub squares: Wide,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            latency: Extent::default(),
            squares: Wide::default(),
        }
    }
}

impl Flow {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.latency.add(&other.latency);
        self.squares = self.squares.plus(other.squares);
    }
}

/// Figures in which no order matters.
pub struct Figures {
    /// Packets by what they are.
    pub counts: Counts,
    /// How long packets took.
    pub latency: Times,
    /// By how much that differed from the packet before.
    pub jitter: Times,
    /// How long after the packet before each came.
    pub inter_arrival: Times,
    /// Over time.
    pub bins: Bins<Came>,
    /// By flow, each at its number.
    pub flows: Vec<Flow>,
}

impl Figures {
    /// Of no packets.
    #[must_use]
    pub fn new(wanted: &Wanted) -> Self {
        Self {
            counts: Counts::default(),
            latency: Times::default(),
            jitter: Times::default(),
            inter_arrival: Times::default(),
            bins: Bins::new(wanted.most_bins, wanted.origin_ns),
            flows: Vec::new(),
        }
    }

    /// Add those of other pieces.
    pub fn merge(&mut self, other: Self) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.jitter.merge(&other.jitter);
        self.inter_arrival.merge(&other.inter_arrival);
        self.bins.merge(other.bins);
        if self.flows.len() < other.flows.len() {
            self.flows.resize(other.flows.len(), Flow::default());
        }
        for (flow, more) in self.flows.iter_mut().zip(&other.flows) {
            flow.add(more);
        }
    }

    /// A packet, and the one that came before it.
    pub fn follow(&mut self, before: Edge, next: Edge, has_sent: bool) {
        self.inter_arrival.add(next.received_ns - before.received_ns);
        if has_sent && before.clock == next.clock {
            self.jitter.add((next.latency_ns - before.latency_ns).abs());
        }
    }
}

/// A packet at the end of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// When it came.
    pub received_ns: i64,
    /// How long it took.
    pub latency_ns: i64,
    /// The sender's clock.
    pub clock: u8,
}

/// What has to be joined in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Packets that count.
    pub packets: u64,
    /// The first and the last of them.
    pub ends: Option<(Edge, Edge)>,
    /// When the latest came.
    pub latest_ns: Option<i64>,
    /// Their numbers.
    pub numbers: Vec<Run>,
    /// Those that are late, by limit.
    pub late: Vec<Runs>,
}

impl Part {
    /// A piece that has nothing yet.
    #[must_use]
    pub fn new(wanted: &Wanted) -> Self {
        Self { late: vec![Runs::default(); wanted.limits.len()], ..Self::default() }
    }

    /// As before the first packet, with the memory that it has.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.numbers.clear();
        self.late.iter_mut().for_each(Runs::clear);
        Self { numbers: self.numbers, late: self.late, ..Self::default() }
    }
}

/// Makes figures of pieces, for one processor.
pub struct Digester<'a> {
    wanted: &'a Wanted,
    columns: Box<Columns>,
    between: Box<[i64; CHUNK]>,
    /// What was found so far.
    pub figures: Figures,
}

impl<'a> Digester<'a> {
    /// Before the first piece.
    #[must_use]
    pub fn new(wanted: &'a Wanted) -> Self {
        Self {
            wanted,
            columns: Box::default(),
            between: Box::new([0; CHUNK]),
            figures: Figures::new(wanted),
        }
    }

    /// Take in packets of a piece, the first of which has this place in the file.
    pub fn add(&mut self, part: &mut Part, data: &[u8], place: u64) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has these instructions, as was just asked.
            unsafe { self.add_by_avx2(part, data, place) };
            return;
        }
        self.add_here(part, data, place);
    }

    /// The same code, compiled for the instructions of most of today's processors.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn add_by_avx2(&mut self, part: &mut Part, data: &[u8], place: u64) {
        self.add_here(part, data, place);
    }

    #[inline(always)]
    fn add_here(&mut self, part: &mut Part, data: &[u8], place: u64) {
        let chunks = data.chunks(CHUNK * self.wanted.layout.bytes());
        for (place, data) in (place..).step_by(CHUNK).zip(chunks) {
            let counts = &mut self.figures.counts;
            let Wanted { layout, clocks, cut, .. } = self.wanted;
            self.columns.take(*layout, data, place, *clocks, cut, counts);
            if self.columns.count > 0 {
                self.add_chunk(part);
            }
        }
    }

    #[inline(always)]
    fn add_chunk(&mut self, part: &mut Part) {
        let wanted = self.wanted;
        let count = self.columns.count;
        let extent = if wanted.has_latency() {
            self.figures.latency.add_chunk(&self.columns.latency_ns[1..=count])
        } else {
            Extent::default()
        };
        if wanted.only_latency {
            return;
        }
        self.follow(part);
        let columns = &*self.columns;
        let received_ns = &columns.received_ns[1..=count];
        let latency_ns = &columns.latency_ns[1..=count];
        let (earliest, latest) = range(received_ns);
        part.latest_ns = part.latest_ns.max(Some(latest));
        let sequence = if wanted.numbered { &columns.sequence[..count] } else { &[] };
        if let Some((&first, _)) = sequence.split_first() {
            let apart = (0..).zip(sequence).fold(0, |apart, (at, &number): (u64, _)| {
                apart | (number ^ first.wrapping_add(at))
            });
            if apart == 0 && first.checked_add(count as u64).is_some() {
                extend(&mut part.numbers, first, count as u64);
            } else {
                for &number in sequence {
                    extend(&mut part.numbers, number, 1);
                }
            }
        }
        let packets = Packets {
            place: part.packets,
            sequence,
            received_ns,
            latency_ns,
            extent: (extent.count == count as u64).then_some(extent),
        };
        for (late, &limit) in part.late.iter_mut().zip(&wanted.limits) {
            late.add(limit, &packets);
        }
        part.packets += count as u64;
        if self.figures.bins.in_one(earliest, latest) {
            self.figures.bins.add(earliest, &Came { packets: count as u64, latency: extent });
        } else {
            add_each(&mut self.figures.bins, received_ns, latency_ns, wanted.has_latency());
        }
        if wanted.by_flow {
            add_flows(&mut self.figures.flows, columns, wanted.has_latency());
        }
    }

    /// What lies between each packet and the one before it.
    #[inline(always)]
    fn follow(&mut self, part: &mut Part) {
        let columns = &mut *self.columns;
        let count = columns.count;
        if columns.one_clock {
            let clock = columns.clock[1];
            columns.clock[count] = clock;
        }
        let edge = |columns: &Columns, at: usize| Edge {
            received_ns: columns.received_ns[at],
            latency_ns: columns.latency_ns[at],
            clock: columns.clock[at],
        };
        let (first, last) = (edge(columns, 1), edge(columns, count));
        let before = part.ends.map(|(_, before)| before);
        part.ends = Some((part.ends.map_or(first, |(first, _)| first), last));
        let begin = if let Some(before) = before {
            columns.received_ns[0] = before.received_ns;
            columns.latency_ns[0] = before.latency_ns;
            columns.clock[0] = before.clock;
            0
        } else {
            1
        };
        let has_sent = self.wanted.clocks.sent;
        if !columns.one_clock || before.is_some_and(|before| before.clock != first.clock) {
            for at in begin..count {
                if columns.one_clock && at > 0 {
                    columns.clock[at] = first.clock;
                }
                let (before, next) = (edge(columns, at), edge(columns, at + 1));
                let next =
                    if columns.one_clock { Edge { clock: first.clock, ..next } } else { next };
                self.figures.follow(before, next, has_sent);
            }
            return;
        }
        let between = &mut self.between[..count - begin];
        let received = &columns.received_ns[begin..=count];
        for (step, two) in between.iter_mut().zip(received.windows(2)) {
            *step = two[1] - two[0];
        }
        self.figures.inter_arrival.add_chunk(between);
        if has_sent {
            let latency = &columns.latency_ns[begin..=count];
            for (step, two) in between.iter_mut().zip(latency.windows(2)) {
                *step = (two[1] - two[0]).abs();
            }
            self.figures.jitter.add_chunk(between);
        }
    }
}

fn add_each(bins: &mut Bins<Came>, received_ns: &[i64], latency_ns: &[i64], has_latency: bool) {
    for (&received, &took) in received_ns.iter().zip(latency_ns) {
        let some = has_latency && took >= 0;
        let latency = if some { Extent::of(&[took]) } else { Extent::default() };
        bins.add(received, &Came { packets: 1, latency });
    }
}

fn add_flows(flows: &mut Vec<Flow>, columns: &Columns, has_latency: bool) {
    for at in 0..columns.count {
        let number = usize::from(columns.flow[at]);
        if flows.len() <= number {
            flows.resize(number + 1, Flow::default());
        }
        let (received_ns, took) = (columns.received_ns[at + 1], columns.latency_ns[at + 1]);
        let some = has_latency && took >= 0;
        let square = u128::from(if some { unsigned(took) } else { 0 });
        flows[number].add(&Flow {
            packets: 1,
            bytes: columns.bytes[at].into(),
            first_ns: received_ns,
            last_ns: received_ns,
            latency: if some { Extent::of(&[took]) } else { Extent::default() },
            squares: Wide::product(square, square),
        });
    }
}
