// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets as columns: what a file has of some of them, and which of them count.

use std::ops::Range;

use skblab_traffic::record::{RECORD, Record, flags};

use crate::times::{CHUNK, range};
use crate::{signed, unsigned};

/// What a file is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Records of ours, see [`skblab_traffic::record`].
    Records,
    /// Sent and received, two doubles in seconds: `timestamps-*.data` of the real-time study.
    Timestamps,
    /// Sent and received, two whole numbers of nanoseconds.
    Pairs,
}

impl Layout {
    /// Bytes of one packet.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Records => RECORD,
            Self::Timestamps | Self::Pairs => 16,
        }
    }
}

/// No time is so large: a difference of two is a number of 64 bits then.
pub const TIMES_END: u64 = 1 << 62;
const NS: f64 = 1e9;
const MOST_SECONDS: f64 = 4_611_686_018.427_388;
const TWO_TO_52: f64 = 4_503_599_627_370_496.0;
const MAGIC: u64 = 0x4330_0000_0000_0000;
const SIGN: u64 = 1 << 63;

/// What is known of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Sent is known.
    pub sent: bool,
    /// Sent and received are of one clock, so that latency is known.
    pub one: bool,
    /// The receiver's is `CLOCK_REALTIME`: the records say which the sender's is.
    pub realtime: bool,
    /// How far `CLOCK_TAI` is ahead of it.
    pub tai_offset_ns: i64,
}

const REALTIME: u32 = 0;
const TAI: u32 = 1;
const MONOTONIC: u32 = 2;

/// Which packets are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// By their place in the file, from 0.
    pub places: Range<u64>,
    /// By when they came.
    pub times_ns: Range<i64>,
    /// Of one flow only.
    pub flow: Option<u16>,
}

impl Default for Cut {
    fn default() -> Self {
        Self { places: 0..u64::MAX, times_ns: i64::MIN..i64::MAX, flow: None }
    }
}

impl Cut {
    /// All packets are looked at.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }
}

/// Packets by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that are looked at.
    pub received: u64,
    /// UDP payload of those of the transmission.
    pub bytes: u64,
    /// Seen before.
    pub duplicates: u64,
    /// Too far behind to be told new from repeated.
    pub too_old: u64,
    /// A number that was not expected.
    pub beyond: u64,
    /// Of another transmission.
    pub other_transmission: u64,
    /// No header that is known.
    pub foreign: u64,
    /// Stamped when they were read.
    pub not_by_kernel: u64,
    /// A time is no such: not a number, negative, or beyond 2^62 ns.
    pub bad_times: u64,
    /// Stamped by a clock that the receiver does not stamp by.
    pub unlike: u64,
}

impl Counts {
    /// Add those of another part.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.bytes += other.bytes;
        self.duplicates += other.duplicates;
        self.too_old += other.too_old;
        self.beyond += other.beyond;
        self.other_transmission += other.other_transmission;
        self.foreign += other.foreign;
        self.not_by_kernel += other.not_by_kernel;
        self.bad_times += other.bad_times;
        self.unlike += other.unlike;
    }
}

/// Packets that count, in their order: new ones whose times are known.
///
/// The first place of the times is for the packet before; the others begin at 1.
pub struct Columns {
    /// How many there are.
    pub count: usize,
    /// When each came.
    pub received_ns: [i64; CHUNK + 1],
    /// How long each took, by the clocks as they are.
    pub latency_ns: [i64; CHUNK + 1],
    /// Number of the sender's clock.
    pub clock: [u8; CHUNK + 1],
    /// All of these have one clock, that of the first.
    pub one_clock: bool,
    /// Numbers.
    pub sequence: [u64; CHUNK],
    /// Flows.
    pub flow: [u16; CHUNK],
    /// Payload bytes.
    pub bytes: [u16; CHUNK],
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            count: 0,
            received_ns: [0; CHUNK + 1],
            latency_ns: [0; CHUNK + 1],
            clock: [0; CHUNK + 1],
            one_clock: true,
            sequence: [0; CHUNK],
            flow: [0; CHUNK],
            bytes: [0; CHUNK],
        }
    }
}

impl Columns {
    /// Take packets from `data`, the first of which has this place in the file: those that count.
    #[inline(always)]
    pub fn take(
        &mut self,
        layout: Layout,
        data: &[u8],
        place: u64,
        clocks: Clocks,
        cut: &Cut,
        counts: &mut Counts,
    ) {
        match layout {
            Layout::Records => self.take_records(data, place, clocks, cut, counts),
            Layout::Timestamps => {
                let good = self.take_seconds(data);
                self.keep_pairs(data, good, place, cut, counts, |pair| {
                    Some((
                        nanoseconds(f64::from_bits(pair.0))?,
                        nanoseconds(f64::from_bits(pair.1))?,
                    ))
                });
            }
            Layout::Pairs => {
                let good = self.take_pairs(data);
                self.keep_pairs(data, good, place, cut, counts, |(sent, received)| {
                    ((sent | received) < TIMES_END).then_some((signed(sent), signed(received)))
                });
            }
        }
    }

    /// Whether all are good.
    #[inline(always)]
    fn take_pairs(&mut self, data: &[u8]) -> bool {
        let mut all = 0;
        let slots = self.received_ns[1..].iter_mut().zip(&mut self.latency_ns[1..]);
        for (pair, (received, latency)) in data.chunks_exact(16).zip(slots) {
            let (sent, came) = pair_of(pair);
            all |= sent | came;
            *received = signed(came);
            *latency = signed(came).wrapping_sub(signed(sent));
        }
        all < TIMES_END
    }

    /// The same, of seconds.
    #[inline(always)]
    fn take_seconds(&mut self, data: &[u8]) -> bool {
        // As numbers, patterns are in the order of the doubles, if none has a sign; those of what
        // is not a number are beyond all.
        let (mut all, mut most) = (0, 0);
        let slots = self.received_ns[1..].iter_mut().zip(&mut self.latency_ns[1..]);
        // The sum has the nearest whole number in its lower bits, if that is not too large.
        let whole = |bits| signed((f64::from_bits(bits) * NS + TWO_TO_52).to_bits() ^ MAGIC);
        for ((sent, came), (received, latency)) in data.chunks_exact(16).map(pair_of).zip(slots) {
            all |= sent | came;
            most = signed(sent).max(signed(came)).max(most);
            *received = whole(came);
            *latency = whole(came).wrapping_sub(whole(sent));
        }
        let most = f64::from_bits(unsigned(most));
        let good = all < SIGN && most < MOST_SECONDS;
        if good && most * NS >= TWO_TO_52 {
            let slots = self.received_ns[1..].iter_mut().zip(&mut self.latency_ns[1..]);
            for ((sent, came), (received, latency)) in data.chunks_exact(16).map(pair_of).zip(slots)
            {
                *received = rounded(f64::from_bits(came));
                *latency = *received - rounded(f64::from_bits(sent));
            }
        }
        good
    }

    /// Keep what counts of pairs.
    #[inline(always)]
    fn keep_pairs(
        &mut self,
        data: &[u8],
        good: bool,
        place: u64,
        cut: &Cut,
        counts: &mut Counts,
        times: impl Fn((u64, u64)) -> Option<(i64, i64)>,
    ) {
        let count = data.len() / 16;
        self.one_clock = true;
        self.count = count;
        if good && self.all_inside(place, cut) {
            counts.received += count as u64;
            return;
        }
        let mut kept = 0;
        for (place, pair) in (place..).zip(data.chunks_exact(16)) {
            let found = times(pair_of(pair));
            let inside = found.is_none_or(|(_, came)| cut.times_ns.contains(&came));
            if !cut.places.contains(&place) || !inside || cut.flow.is_some_and(|flow| flow != 0) {
                continue;
            }
            counts.received += 1;
            let Some((sent, came)) = found else {
                counts.bad_times += 1;
                continue;
            };
            kept += 1;
            self.received_ns[kept] = came;
            self.latency_ns[kept] = came - sent;
        }
        self.count = kept;
    }

    /// Whether no packet is cut off.
    #[inline(always)]
    fn all_inside(&self, place: u64, cut: &Cut) -> bool {
        let end = place + self.count as u64;
        if cut.is_whole() {
            return true;
        }
        let (min, max) = range(&self.received_ns[1..=self.count]);
        cut.flow.is_none()
            && cut.places.start <= place
            && end <= cut.places.end
            && cut.times_ns.start <= min
            && max < cut.times_ns.end
    }

    #[inline(always)]
    fn take_records(
        &mut self,
        data: &[u8],
        place: u64,
        clocks: Clocks,
        cut: &Cut,
        counts: &mut Counts,
    ) {
        let count = data.len() / RECORD;
        self.count = count;
        let (mut all_flags, mut unlike_first, mut all_times, mut bytes) = (0, 0, 0, 0_u64);
        let first_flags = data.first_chunk().map_or(0, |data| Record::from_bytes(data).flags);
        let slots = self.received_ns[1..].iter_mut().zip(&mut self.latency_ns[1..]);
        let more = self.sequence.iter_mut().zip(&mut self.flow).zip(&mut self.bytes);
        for ((data, (received, latency)), ((number, flow), size)) in
            data.chunks_exact(RECORD).zip(slots).zip(more)
        {
            let Some(record) = data.first_chunk().map(Record::from_bytes) else { break };
            all_flags |= record.flags;
            unlike_first |= record.flags ^ first_flags;
            all_times |= record.sent_ns | record.received_ns;
            *received = signed(record.received_ns);
            *latency = signed(record.received_ns.wrapping_sub(record.sent_ns));
            *number = record.sequence;
            *flow = record.flow;
            *size = record.payload_bytes;
            bytes += u64::from(record.payload_bytes);
        }
        let plain = all_flags & (flags::NOT_COUNTED | flags::NOT_BY_KERNEL) == 0;
        let clock = (first_flags & flags::CLOCK) >> flags::CLOCK_SHIFT;
        let as_is =
            !clocks.realtime || clock == REALTIME || clock == flags::CLOCK >> flags::CLOCK_SHIFT;
        let one_clock = unlike_first & flags::CLOCK == 0 && as_is;
        if plain && one_clock && all_times < TIMES_END && self.all_inside(place, cut) {
            self.one_clock = true;
            self.clock[1] = small(clock);
            counts.received += count as u64;
            counts.bytes += bytes;
            return;
        }
        self.keep_records(data, place, clocks, cut, counts);
    }

    /// Keep what counts, and count what does not.
    fn keep_records(
        &mut self,
        data: &[u8],
        place: u64,
        clocks: Clocks,
        cut: &Cut,
        counts: &mut Counts,
    ) {
        let mut kept = 0;
        self.one_clock = true;
        for (place, data) in (place..).zip(data.chunks_exact(RECORD)) {
            let Some(record) = data.first_chunk().map(Record::from_bytes) else { break };
            let has = |flag| u64::from(record.flags & flag != 0);
            let no_flow = record.flags & flags::FOREIGN != 0;
            let other_flow = cut.flow.is_some_and(|flow| no_flow || flow != record.flow);
            let good = (record.received_ns | record.sent_ns) < TIMES_END;
            let came = signed(record.received_ns);
            if !cut.places.contains(&place) || other_flow {
                continue;
            }
            if record.received_ns < TIMES_END && !cut.times_ns.contains(&came) {
                continue;
            }
            counts.received += 1;
            counts.not_by_kernel += has(flags::NOT_BY_KERNEL);
            counts.foreign += has(flags::FOREIGN);
            counts.other_transmission += has(flags::OTHER_TRANSMISSION);
            if record.flags & (flags::FOREIGN | flags::OTHER_TRANSMISSION) != 0 {
                continue;
            }
            counts.bytes += u64::from(record.payload_bytes);
            counts.duplicates += has(flags::DUPLICATE);
            counts.too_old += has(flags::TOO_OLD);
            counts.beyond += has(flags::BEYOND);
            if record.flags & flags::NOT_COUNTED != 0 {
                continue;
            }
            if !good {
                counts.bad_times += 1;
                continue;
            }
            let clock = (record.flags & flags::CLOCK) >> flags::CLOCK_SHIFT;
            counts.unlike += u64::from(clocks.realtime && clock == MONOTONIC);
            let ahead = if clocks.realtime && clock == TAI { clocks.tai_offset_ns } else { 0 };
            self.sequence[kept] = record.sequence;
            self.flow[kept] = record.flow;
            self.bytes[kept] = record.payload_bytes;
            kept += 1;
            self.received_ns[kept] = came;
            self.latency_ns[kept] = came - signed(record.sent_ns) + ahead;
            self.clock[kept] = small(clock);
            self.one_clock &= self.clock[kept] == self.clock[1];
        }
        self.count = kept;
    }
}

fn small(clock: u32) -> u8 {
    u8::try_from(clock).unwrap_or(u8::MAX)
}

#[inline(always)]
fn pair_of(pair: &[u8]) -> (u64, u64) {
    let number = |at: usize| {
        pair.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    (number(0), number(8))
}

/// Seconds as whole nanoseconds; they are no more than [`MOST_SECONDS`], and not negative.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "it is below 2^62")]
fn rounded(seconds: f64) -> i64 {
    let found = seconds * NS;
    if found < TWO_TO_52 { signed((found + TWO_TO_52).to_bits() ^ MAGIC) } else { found as i64 }
}

fn nanoseconds(seconds: f64) -> Option<i64> {
    (0.0..MOST_SECONDS).contains(&seconds).then(|| rounded(seconds))
}

/// Of a packet in a file of pairs: when it was sent, and when it came.
#[must_use]
pub fn times_of(layout: Layout, data: &[u8]) -> Option<(i64, i64)> {
    let (sent, came) = pair_of(data);
    match layout {
        Layout::Timestamps => {
            Some((nanoseconds(f64::from_bits(sent))?, nanoseconds(f64::from_bits(came))?))
        }
        Layout::Pairs => ((sent | came) < TIMES_END).then_some((signed(sent), signed(came))),
        Layout::Records => {
            let record = Record::from_bytes(data.first_chunk()?);
            let good = (record.sent_ns | record.received_ns) < TIMES_END;
            good.then_some((signed(record.sent_ns), signed(record.received_ns)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLOCKS: Clocks = Clocks { sent: true, one: true, realtime: false, tai_offset_ns: 0 };

    fn seconds(pairs: &[(f64, f64)]) -> (Vec<(i64, i64)>, Counts) {
        let pairs = pairs.iter().map(|&(sent, came)| (sent.to_bits(), came.to_bits()));
        taken(Layout::Timestamps, &pairs.collect::<Vec<_>>())
    }

    fn taken(layout: Layout, pairs: &[(u64, u64)]) -> (Vec<(i64, i64)>, Counts) {
        let data = pairs.iter().flat_map(|&(sent, came)| [sent.to_le_bytes(), came.to_le_bytes()]);
        let data = data.flatten().collect::<Vec<_>>();
        let (mut columns, mut counts) = (Columns::default(), Counts::default());
        columns.take(layout, &data, 0, CLOCKS, &Cut::default(), &mut counts);
        let found = 1..=columns.count;
        let found = found.map(|at| (columns.received_ns[at], columns.latency_ns[at])).collect();
        (found, counts)
    }

    #[test]
    fn times_that_are_none_are_counted() {
        let bad = [f64::NAN, -1.0, f64::INFINITY, MOST_SECONDS, f64::NEG_INFINITY];
        for bad in bad {
            let (found, counts) = seconds(&[(1.0, 1.5), (bad, 2.0), (2.0, bad), (3.0, 3.25)]);
            assert_eq!(found, [(1_500_000_000, 500_000_000), (3_250_000_000, 250_000_000)]);
            assert_eq!((counts.received, counts.bad_times), (4, 2), "{bad}");
        }
        let (found, counts) = taken(Layout::Pairs, &[(1, 3), (TIMES_END, 0), (5, 4)]);
        assert_eq!((found, counts.bad_times), (vec![(3, 2), (4, -1)], 1));
    }

    proptest! {
        #[test]
        fn seconds_become_the_nearest_nanosecond(
            times in prop::collection::vec((0.0..1e10_f64, 0_u32..40), 1..50)
        ) {
            let times = times.iter().map(|&(time, shift)| time / f64::from(shift).exp2());
            let times = times.collect::<Vec<_>>();
            let pairs = times.iter().map(|&time| (0.0, time)).collect::<Vec<_>>();
            let right = times.iter().filter(|&&time| time < MOST_SECONDS);
            #[allow(clippy::cast_possible_truncation)]
            let right = right.map(|&time| (time * NS).round_ties_even() as i64);
            prop_assert!(seconds(&pairs).0.iter().map(|&(came, _)| came).eq(right));
        }
    }
}
