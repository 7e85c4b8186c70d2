// SPDX-License-Identifier: GPL-2.0-or-later
//! One kind of time of any number of packets, in fixed memory and in whole numbers only.
//!
//! Sums are exact, so the order in which values come, and how they are divided among processors,
//! changes no figure. The histogram is that of [`skblab_traffic::distribution`]: 128 buckets per power
//! of two, and a percentile is the middle of the bucket that holds it. The number of a bucket is the
//! upper part of the value as a double: a sum and a shift find it, for several values at once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Serialize;
use skblab_traffic::distribution::{SUB_BUCKETS, TAIL};

use crate::unsigned;
use crate::wide::Wide;

/// Values that are added at once, at most.
pub const CHUNK: usize = 1024;

const SUB_BITS: u32 = SUB_BUCKETS.ilog2();
/// Values below it are whole numbers in a double, by a sum alone.
const MAGIC_END: i64 = 1 << 52;
const MAGIC: u64 = 0x4330_0000_0000_0000;
const TWO_TO_52: f64 = 4_503_599_627_370_496.0;
const SHIFT: u32 = 52 - SUB_BITS;
/// The bucket of 1 has number 1 then; that of 0 stays 0.
const BELOW: u64 = (1023 << SUB_BITS) - 1;
pub(crate) const BUCKETS: usize = 1 << 13;
const MASK: usize = BUCKETS - 1;
/// Histograms beside each other: values in a row are often of one bucket, and its count would have
/// to be written before it is read again.
const LANES: usize = 4;
/// A chunk whose values lie no farther apart has squares that add up in 64 bits.
const NEAR: u64 = 1 << 27;

/// Each percentile that may be given, and the share of values beyond it in millionths.
pub const PERCENTILES: [(&str, u64); 7] = [
    ("50", 500_000),
    ("90", 100_000),
    ("99", 10_000),
    ("99.9", 1_000),
    ("99.99", 100),
    ("99.999", 10),
    ("99.9999", 1),
];
const WHOLE: u64 = 1_000_000;

/// What was observed; no value is 2^63 or more.
#[derive(Clone)]
pub struct Times {
    lanes: [Box<[u64; BUCKETS]>; LANES],
    /// Buckets of the values that are being added.
    places: Box<[u32; CHUNK]>,
    count: u64,
    negative: u64,
    min: u64,
    max: u64,
    sum: u128,
    squares: Wide,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lanes: std::array::from_fn(|_| empty()),
            places: Box::new([0; CHUNK]),
            count: 0,
            negative: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
            squares: Wide::default(),
        }
    }
}

fn empty() -> Box<[u64; BUCKETS]> {
    // Not on the stack first.
    let empty = vec![0; BUCKETS].into_boxed_slice();
    empty.try_into().unwrap_or_else(|_| unreachable!("it has so many buckets"))
}

/// What some values have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many there are, none of them negative.
    pub count: u64,
    /// The smallest; above `max` if there is none.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// Of all.
    pub sum: u128,
}

impl Default for Extent {
    fn default() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Extent {
    /// Of these values, none of which is negative.
    #[inline]
    #[must_use]
    pub fn of(values: &[i64]) -> Self {
        let (mut min, mut max, mut sum) = (i64::MAX, i64::MIN, 0_u128);
        // No longer than what adds up in 64 bits.
        for few in values.chunks(2) {
            let mut of_few = 0;
            for &value in few {
                min = min.min(value);
                max = max.max(value);
                of_few += unsigned(value);
            }
            sum += u128::from(of_few);
        }
        Self { count: values.len() as u64, min: unsigned(min), max: unsigned(max), sum }
    }

    /// Of those of these values that are not negative.
    #[inline]
    #[must_use]
    pub fn of_some(values: &[i64]) -> Self {
        // Negative ones would not add up.
        if !values.is_empty() && range(values).0 >= 0 {
            return Self::of(values);
        }
        let mut found = Self::default();
        for &value in values.iter().filter(|&&value| value >= 0) {
            found.add(&Self::of(&[value]));
        }
        found
    }

    /// With others.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Their mean, or `None` if there are none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// The smallest and the largest; of none, such that no value is between them.
#[inline(always)]
#[must_use]
pub fn range(values: &[i64]) -> (i64, i64) {
    let (mut min, mut max) = (i64::MAX, i64::MIN);
    for &value in values {
        min = min.min(value);
        max = max.max(value);
    }
    (min, max)
}

/// What one pass over some values finds: their sum, and that of their squares, from the first on.
struct Pass {
    min: i64,
    max: i64,
    sum: i64,
    squares: u64,
}

impl Pass {
    /// The same sums from the least value on; no two values are [`NEAR`] or more apart.
    #[inline(always)]
    fn above_least(&self, first: i64, count: u64) -> (u128, Wide) {
        let (before, sum) = (i128::from(first - self.min), i128::from(self.sum));
        let count = i128::from(count);
        let squares = i128::from(self.squares) + 2 * before * sum + count * before * before;
        let all = sum + count * before;
        (all.unsigned_abs(), Wide::from(squares.unsigned_abs()))
    }
}

impl Times {
    /// Add up to [`CHUNK`] values; those below zero are only counted. Says what it added.
    #[inline(always)]
    pub fn add_chunk(&mut self, values: &[i64]) -> Extent {
        self.add_each(values.iter().copied())
    }

    /// The same of values that are made as they are added.
    #[inline(always)]
    pub fn add_each(&mut self, values: impl ExactSizeIterator<Item = i64> + Clone) -> Extent {
        let Some(first) = values.clone().next() else { return Extent::default() };
        let count = values.len();
        let pass = self.pass(first, values.clone());
        if pass.min < 0 {
            return self.add_some_negative(values);
        }
        let (min, max) = (unsigned(pass.min), unsigned(pass.max));
        let above = values.clone().map(|value| unsigned(value) - min);
        let (more, squares) = if max - min < NEAR {
            pass.above_least(first, count as u64)
        } else {
            above.fold((0, Wide::default()), |(sum, squares), value| {
                let value = u128::from(value);
                (sum + value, squares.plus(Wide::from(value * value)))
            })
        };
        if max < unsigned(MAGIC_END) {
            self.sort_in(count);
        } else {
            for value in values {
                self.lanes[0][bucket(unsigned(value))] += 1;
            }
        }
        let count = count as u64;
        let least = u128::from(min);
        // Each is the least and some more: squared, min² + 2·min·more + more².
        let mixed = Wide::product(least, more).times(2);
        let all_least = Wide::product(least, least).times(count);
        self.squares = self.squares.plus(squares).plus(mixed).plus(all_least);
        let found = Extent { count, min, max, sum: least * u128::from(count) + more };
        self.count += count;
        self.sum += found.sum;
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        found
    }

    /// Look at all values once: what this finds holds only of some ranges.
    #[inline(always)]
    fn pass(&mut self, first: i64, values: impl Iterator<Item = i64>) -> Pass {
        let mut pass = Pass { min: i64::MAX, max: i64::MIN, sum: 0, squares: 0 };
        for (place, value) in self.places.iter_mut().zip(values) {
            pass.min = pass.min.min(value);
            pass.max = pass.max.max(value);
            let above = value.wrapping_sub(first);
            pass.sum = pass.sum.wrapping_add(above);
            // One multiplication of 32 bits, of which a processor makes several at once.
            #[allow(clippy::cast_possible_truncation, reason = "others are not used")]
            let near = i64::from(above as i32);
            pass.squares = pass.squares.wrapping_add(unsigned(near * near));
            let double = f64::from_bits(unsigned(value) | MAGIC) - TWO_TO_52;
            #[allow(clippy::cast_possible_truncation, reason = "13 bits remain")]
            {
                *place = (double.to_bits() >> SHIFT).saturating_sub(BELOW) as u32;
            }
        }
        pass
    }

    /// Some of them are below zero.
    #[cold]
    fn add_some_negative(&mut self, values: impl Iterator<Item = i64>) -> Extent {
        let mut kept = [0; CHUNK];
        let (mut count, mut negative) = (0, 0);
        for value in values {
            if value < 0 {
                negative += 1;
            } else {
                kept[count] = value;
                count += 1;
            }
        }
        self.negative += negative;
        self.add_chunk(&kept[..count])
    }

    /// Count so many values, whose buckets are known.
    #[inline(always)]
    fn sort_in(&mut self, count: usize) {
        let [first, second, third, fourth] = &mut self.lanes;
        let mut fours = self.places[..count].chunks_exact(LANES);
        for four in &mut fours {
            first[four[0] as usize & MASK] += 1;
            second[four[1] as usize & MASK] += 1;
            third[four[2] as usize & MASK] += 1;
            fourth[four[3] as usize & MASK] += 1;
        }
        for &place in fours.remainder() {
            first[place as usize & MASK] += 1;
        }
    }

    /// Add one value, or count it if it is below zero.
    pub fn add(&mut self, value: i64) {
        self.add_chunk(&[value]);
    }

    /// Add all of another.
    pub fn merge(&mut self, other: &Self) {
        for (lane, more) in self.lanes.iter_mut().zip(other.lanes.iter()) {
            for (held, more) in lane.iter_mut().zip(more.iter()) {
                *held += more;
            }
        }
        self.count += other.count;
        self.negative += other.negative;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares = self.squares.plus(other.squares);
    }

    /// How many values there are, without negative ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    fn held(&self, bucket: usize) -> u64 {
        self.lanes.iter().map(|lane| lane[bucket]).sum()
    }

    /// The value beyond which so many millionths lie; `None` without any values.
    #[must_use]
    pub fn value_at(&self, beyond: u64) -> Option<u64> {
        value_at(beyond, self.count, self.min..=self.max, |bucket| self.held(bucket))
    }

    /// The median, without which there are no values.
    #[must_use]
    pub fn median(&self) -> Option<u64> {
        self.value_at(WHOLE / 2)
    }

    /// Exact: n·Σx² - (Σx)², of which the variance is a share.
    fn deviation(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let apart = self.squares.times(self.count).minus(Wide::product(self.sum, self.sum));
        let (count, less) = (self.count as f64, (self.count - 1) as f64);
        Some((apart.to_f64() / count / less).sqrt())
    }

    /// All figures.
    #[must_use]
    pub fn report(&self) -> TimesReport {
        let some = self.count > 0;
        TimesReport {
            count: self.count,
            negative: self.negative,
            min: some.then_some(self.min),
            mean: some.then(|| self.sum as f64 / self.count as f64),
            sd: self.deviation(),
            max: some.then_some(self.max),
            percentiles: percentiles(self.count, self.min..=self.max, |bucket| self.held(bucket)),
            histogram: histogram(|bucket| self.held(bucket)),
        }
    }
}

/// One kind of time, or of distance, as it is printed: `unit` is in the name of who has it.
#[derive(Debug, PartialEq, Serialize)]
pub struct TimesReport {
    count: u64,
    negative: u64,
    min: Option<u64>,
    mean: Option<f64>,
    sd: Option<f64>,
    max: Option<u64>,
    percentiles: BTreeMap<&'static str, u64>,
    /// Smallest and largest value of a bucket, and how many are in it.
    histogram: Vec<[u64; 3]>,
}

/// The value beyond which so many millionths lie, by how many values each bucket holds.
fn value_at(
    beyond: u64,
    count: u64,
    within: RangeInclusive<u64>,
    held: impl Fn(usize) -> u64,
) -> Option<u64> {
    let rank = (u128::from(count) * u128::from(WHOLE - beyond)).div_ceil(WHOLE.into());
    let mut below = 0;
    let found = (0..BUCKETS).find(|&bucket| {
        below += u128::from(held(bucket));
        below >= rank && below > 0
    })?;
    let (low, width) = bounds(found);
    Some((low + width / 2).clamp(*within.start(), *within.end()))
}

/// Each percentile with enough values beyond it, by its name.
pub(crate) fn percentiles(
    count: u64,
    within: RangeInclusive<u64>,
    held: impl Fn(usize) -> u64,
) -> BTreeMap<&'static str, u64> {
    PERCENTILES
        .iter()
        .filter(|&&(_, beyond)| u128::from(count) * u128::from(beyond) >= u128::from(TAIL * WHOLE))
        .filter_map(|&(name, beyond)| Some((name, value_at(beyond, count, within.clone(), &held)?)))
        .collect()
}

/// Smallest and largest value of each bucket that holds some, and how many.
pub(crate) fn histogram(held: impl Fn(usize) -> u64) -> Vec<[u64; 3]> {
    (0..BUCKETS)
        .map(|bucket| (bounds(bucket), held(bucket)))
        .filter(|&(_, count)| count > 0)
        .map(|((low, width), count)| [low, low + (width - 1), count])
        .collect()
}

/// Number of the bucket of any value.
pub(crate) fn bucket(value: u64) -> usize {
    let Some(power) = value.checked_ilog2() else { return 0 };
    let sub =
        if power <= SUB_BITS { value << (SUB_BITS - power) } else { value >> (power - SUB_BITS) };
    let index = (u64::from(power) << SUB_BITS) + (sub & (SUB_BUCKETS - 1)) + 1;
    usize::try_from(index).unwrap_or(usize::MAX) & MASK
}

/// Smallest value of a bucket, and how many values it is for.
fn bounds(bucket: usize) -> (u64, u64) {
    let Some(index) = (bucket as u64).checked_sub(1) else { return (0, 1) };
    let power = u32::try_from(index >> SUB_BITS).unwrap_or(u32::MAX).min(63);
    let sub = SUB_BUCKETS | (index & (SUB_BUCKETS - 1));
    if power <= SUB_BITS {
        return (sub >> (SUB_BITS - power), 1);
    }
    (sub << (power - SUB_BITS), 1 << (power - SUB_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed;
    use proptest::prelude::*;
    use skblab_traffic::distribution::Distribution;

    fn of(values: &[i64]) -> Times {
        let mut made = Times::default();
        for chunk in values.chunks(CHUNK) {
            made.add_chunk(chunk);
        }
        made
    }

    /// Values of every size alike.
    fn any_size() -> impl Strategy<Value = i64> {
        (1_u32..64, any::<u64>()).prop_map(|(shift, value)| signed(value >> shift))
    }

    fn with_negative() -> impl Strategy<Value = i64> {
        (any_size(), any::<u8>())
            .prop_map(|(value, sign)| if sign == 0 { -1 - value } else { value })
    }

    #[test]
    fn figures_of_nothing_and_of_one() {
        let nothing = of(&[]).report();
        assert_eq!((nothing.count, nothing.min, nothing.mean, nothing.sd), (0, None, None, None));
        assert!(of(&[]).median().is_none() && nothing.histogram.is_empty());
        let one = of(&[7]).report();
        assert_eq!((one.min, one.mean, one.sd, one.max), (Some(7), Some(7.0), None, Some(7)));
        assert_eq!((one.histogram, of(&[7]).median()), (vec![[7, 7, 1]], Some(7)));
    }

    #[test]
    fn a_small_spread_of_large_values_is_exact() {
        let near = (1 << 60, (1 << 60) + 2);
        let report = of(&[near.0, near.1, near.0, near.1]).report();
        // Variance 4/3 of four values, two on each side of the mean by 1.
        assert!((report.sd.unwrap() - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{report:?}");
    }

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value in any_size()) {
            let value = unsigned(value);
            let (low, width) = bounds(bucket(value));
            prop_assert!(low <= value && value - low < width);
            prop_assert!(width == 1 || width * SUB_BUCKETS <= low);
            let mut times = Times::default();
            times.add(signed(value));
            prop_assert_eq!(times.held(bucket(value)), 1);
        }

        /// By the definitions, in the simplest way; and as the receiver has them.
        #[test]
        fn figures_are_those_of_the_values(values in prop::collection::vec(with_negative(), 0..3000)) {
            let report = of(&values).report();
            let mut kept = values.iter().copied().filter(|&value| value >= 0).collect::<Vec<_>>();
            kept.sort_unstable();
            prop_assert_eq!(report.count + report.negative, values.len() as u64);
            prop_assert_eq!(report.count, kept.len() as u64);
            prop_assert_eq!(report.min, kept.first().map(|&value| unsigned(value)));
            prop_assert_eq!(report.max, kept.last().map(|&value| unsigned(value)));
            let mut receiver = Distribution::default();
            for &value in &values {
                receiver.add_signed(value.into());
            }
            let receiver = receiver.report();
            for (name, value) in receiver.percentiles_ns {
                prop_assert_eq!(report.percentiles[name], value);
            }
            for (name, theirs, ours) in
                [("mean", receiver.mean_ns, report.mean), ("sd", receiver.sd_ns, report.sd)]
            {
                prop_assert_eq!(theirs.is_some(), ours.is_some());
                let (theirs, ours) = (theirs.unwrap_or(0.0), ours.unwrap_or(0.0));
                prop_assert!((theirs - ours).abs() <= 1e-9 * theirs, "{}: {} {}", name, theirs, ours);
            }
            let held = report.histogram.iter().map(|row| row[2]).sum::<u64>();
            prop_assert_eq!(held, report.count);
        }

        #[test]
        fn parts_in_any_order_are_the_whole(
            values in prop::collection::vec(with_negative(), 0..2000), at: prop::sample::Index
        ) {
            let at = at.index(values.len() + 1);
            let mut merged = of(&values[at..]);
            merged.merge(&of(&values[..at]));
            prop_assert_eq!(merged.report(), of(&values).report());
        }

        #[test]
        fn a_chunk_says_what_it_added(values in prop::collection::vec(any_size(), 1..CHUNK)) {
            prop_assert_eq!(Times::default().add_chunk(&values), Extent::of(&values));
        }
    }
}
