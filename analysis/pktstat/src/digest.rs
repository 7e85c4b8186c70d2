// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures of pieces of a file: those that add up in any order, and the ends of each piece.

use crate::bins::{Bins, Came};
use crate::columns::{Clocks, Columns, Counts, Cut, Layout};
use crate::flows::{Chosen, Flows};
use crate::late::{Limit, Packets, Runs};
use crate::order::{Run, extend};
use crate::times::{CHUNK, Extent, Times, range};

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
    /// Nothing but histograms of these flows.
    pub only_flows: Option<Chosen>,
}

impl Wanted {
    /// Whether it is known how long a packet took.
    #[must_use]
    pub fn has_latency(&self) -> bool {
        self.clocks.sent && self.clocks.one
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
    /// By flow.
    pub flows: Flows,
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
            flows: Flows::default(),
        }
    }

    /// Add those of other pieces.
    pub fn merge(&mut self, other: Self) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.jitter.merge(&other.jitter);
        self.inter_arrival.merge(&other.inter_arrival);
        self.bins.merge(other.bins);
        self.flows.merge(other.flows);
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
    /// What was found so far.
    pub figures: Figures,
}

impl<'a> Digester<'a> {
    /// Before the first piece.
    #[must_use]
    pub fn new(wanted: &'a Wanted) -> Self {
        Self { wanted, columns: Box::default(), figures: Figures::new(wanted) }
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
        if let Some(chosen) = &wanted.only_flows {
            self.figures.flows.add(&self.columns, wanted.has_latency(), Some(chosen));
            return;
        }
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
            add_bins(&mut self.figures.bins, received_ns, latency_ns, wanted.has_latency());
        }
        if wanted.by_flow {
            self.figures.flows.add(columns, wanted.has_latency(), None);
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
        let received = &columns.received_ns[begin..=count];
        self.figures.inter_arrival.add_each(steps(received));
        if has_sent {
            let latency = &columns.latency_ns[begin..=count];
            self.figures.jitter.add_each(steps(latency).map(i64::abs));
        }
    }
}

/// What lies between each time and the next.
#[inline(always)]
fn steps(times: &[i64]) -> impl ExactSizeIterator<Item = i64> + Clone {
    let next = times.get(1..).unwrap_or_default();
    times.iter().zip(next).map(|(before, next)| next - before)
}

/// Packets in a row that are of one bin are added at once.
fn add_bins(bins: &mut Bins<Came>, received_ns: &[i64], latency_ns: &[i64], has_latency: bool) {
    let (mut received_ns, mut latency_ns) = (received_ns, latency_ns);
    while let Some(&first_ns) = received_ns.first() {
        let other = received_ns.iter().position(|&came| !bins.in_one(first_ns, came));
        let count = other.unwrap_or(received_ns.len());
        let (these, behind) = latency_ns.split_at(count);
        let latency = if has_latency { Extent::of_some(these) } else { Extent::default() };
        bins.add(first_ns, &Came { packets: count as u64, latency });
        (received_ns, latency_ns) = (&received_ns[count..], behind);
    }
}
