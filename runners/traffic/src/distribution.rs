// SPDX-License-Identifier: GPL-2.0-or-later
//! Times of any number of packets in fixed memory: mean, standard deviation and percentiles.
//!
//! The histogram is log-linear: [`SUB_BUCKETS`] buckets per power of two, and below that number one
//! for each value. A percentile is the middle of the bucket that holds it, so it is off by at most
//! [`ERROR`] of the true value. Count, minimum and maximum are exact. Mean and standard deviation
//! are by Welford's method, of what each value has more than the first one: so they stay sound where
//! the spread is small beside the values.

use std::collections::BTreeMap;

use crate::report::DistributionReport;

const SUB_BITS: u32 = 7;
/// Buckets per power of two.
pub const SUB_BUCKETS: u64 = 1 << SUB_BITS;
/// By how much of the true value a percentile may be off: half of a bucket's width.
pub const ERROR: f64 = 0.5 / SUB_BUCKETS as f64;
/// Values that have to lie beyond a percentile, else it is not given.
pub const TAIL: u64 = 10;

const BUCKETS: usize = ((64 - SUB_BITS + 1) as usize) << SUB_BITS;
/// Each percentile that may be given, and the share of values beyond it in 100 000ths.
const PERCENTILES: [(&str, u64); 6] =
    [("50", 50_000), ("90", 10_000), ("99", 1_000), ("99.9", 100), ("99.99", 10), ("99.999", 1)];
const WHOLE: u64 = 100_000;

/// What was observed of one kind of time, nanoseconds.
#[derive(Clone, Debug)]
pub struct Distribution {
    buckets: Vec<u64>,
    count: u64,
    negative: u64,
    min: u64,
    max: u64,
    /// The first value.
    origin: u64,
    /// By how much the mean is above the first value.
    mean: f64,
    /// Sum of the squared differences from the mean.
    squares: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            negative: 0,
            min: u64::MAX,
            max: 0,
            origin: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Distribution {
    /// Add one value.
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.count == 1 {
            self.origin = value;
        }
        let above = (i128::from(value) - i128::from(self.origin)) as f64;
        let off = above - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (above - self.mean);
    }

    /// Add a value if it is not below zero; one below is only counted.
    pub fn add_signed(&mut self, value: i128) {
        if value < 0 {
            self.negative += 1;
        } else {
            self.add(u64::try_from(value).unwrap_or(u64::MAX));
        }
    }

    /// The percentile with `beyond` 100 000ths of the values above it, or `None` for too few values.
    fn percentile(&self, beyond: u64) -> Option<u64> {
        let (count, beyond) = (u128::from(self.count), u128::from(beyond));
        if count * beyond < u128::from(TAIL * WHOLE) {
            return None;
        }
        let rank = (count * (u128::from(WHOLE) - beyond)).div_ceil(WHOLE.into());
        let mut below = 0;
        let index = self.buckets.iter().position(|&held| {
            below += u128::from(held);
            below >= rank
        })?;
        Some(middle(index).clamp(self.min, self.max))
    }

    /// All figures.
    #[must_use]
    pub fn report(&self) -> DistributionReport {
        let some = self.count > 0;
        let percentiles = PERCENTILES
            .iter()
            .filter_map(|&(name, beyond)| Some((name, self.percentile(beyond)?)))
            .collect::<BTreeMap<_, _>>();
        DistributionReport {
            count: self.count,
            negative: self.negative,
            min_ns: some.then_some(self.min),
            mean_ns: some.then_some(self.origin as f64 + self.mean),
            sd_ns: (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt()),
            max_ns: some.then_some(self.max),
            percentiles_ns: percentiles,
        }
    }
}

fn bucket(value: u64) -> usize {
    let index = if value < SUB_BUCKETS {
        value
    } else {
        let shift = value.ilog2() - SUB_BITS;
        // The bit above the sub-bucket's is always set: it counts as one more power of two.
        (u64::from(shift) << SUB_BITS) + (value >> shift)
    };
    usize::try_from(index).expect("there are some thousand buckets")
}

/// The value in the middle of a bucket.
fn middle(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB_BUCKETS {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    let lower = (SUB_BUCKETS | (index & (SUB_BUCKETS - 1))) << shift;
    lower + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut made = Distribution::default();
        for &value in values {
            made.add(value);
        }
        made
    }

    /// Values of every size alike.
    fn any_size() -> impl Strategy<Value = u64> {
        (0_u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift)
    }

    #[test]
    fn buckets_leave_no_gap() {
        let mut index = bucket(0);
        assert_eq!(index, 0);
        for power in 0..64 {
            for value in (0..SUB_BUCKETS).map(|sub| {
                let more = if power < SUB_BITS {
                    sub >> (SUB_BITS - power)
                } else {
                    sub << (power - SUB_BITS)
                };
                (1 << power) | more
            }) {
                let next = bucket(value);
                assert!(next == index || next == index + 1, "{value}");
                index = next;
            }
        }
        assert_eq!((index, bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn nothing_has_no_figures() {
        let report = of(&[]).report();
        assert_eq!((report.count, report.min_ns, report.max_ns), (0, None, None));
        assert_eq!((report.mean_ns, report.sd_ns), (None, None));
        assert!(report.percentiles_ns.is_empty());
        assert_eq!(of(&[7]).report().sd_ns, None);
    }

    #[test]
    fn a_percentile_needs_ten_values_beyond_it() {
        for (&(name, beyond), needed) in
            PERCENTILES.iter().zip([20, 100, 1_000, 10_000, 100_000, 1_000_000])
        {
            let mut made = of(&[5]);
            made.count = needed;
            made.buckets[5] = needed;
            assert_eq!(made.percentile(beyond), Some(5), "{name}");
            made.count -= 1;
            made.buckets[5] -= 1;
            assert_eq!(made.percentile(beyond), None, "{name}");
        }
    }

    #[test]
    fn a_small_spread_of_large_values_is_seen() {
        // The squares of these have no bits left for it.
        let base = 1_800_000_000_000_000_000;
        let report = of(&[base, base + 2048, base + 4096]).report();
        assert_eq!(report.sd_ns, Some(2048.0));
    }

    #[test]
    fn below_zero_is_counted_only() {
        let mut made = of(&[3]);
        made.add_signed(-1);
        made.add_signed(4);
        made.add_signed(i128::from(u64::MAX) + 1);
        let report = made.report();
        assert_eq!((report.count, report.negative), (3, 1));
        assert_eq!((report.min_ns, report.max_ns), (Some(3), Some(u64::MAX)));
    }

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value in any_size()) {
            let near = middle(bucket(value));
            prop_assert_eq!(bucket(near), bucket(value));
            prop_assert!(near.abs_diff(value) as f64 <= value as f64 * ERROR);
        }

        #[test]
        fn order_is_kept(left in any_size(), right in any_size()) {
            prop_assert!(left > right || bucket(left) <= bucket(right));
        }

        /// Against all values, sorted.
        #[test]
        fn figures_are_those_of_all_values(
            mut values in prop::collection::vec(any_size(), 1..3000)
        ) {
            let made = of(&values);
            values.sort_unstable();
            let report = made.report();
            prop_assert_eq!(report.count, values.len() as u64);
            prop_assert_eq!(report.min_ns, values.first().copied());
            prop_assert_eq!(report.max_ns, values.last().copied());
            for (name, beyond) in PERCENTILES {
                let enough = report.count * beyond >= TAIL * WHOLE;
                prop_assert_eq!(report.percentiles_ns.contains_key(name), enough, "{}", name);
                if let Some(&got) = report.percentiles_ns.get(name) {
                    let rank = (values.len() as u64 * (WHOLE - beyond)).div_ceil(WHOLE);
                    let exact = values[usize::try_from(rank).unwrap() - 1];
                    prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 * ERROR, "{}", name);
                }
            }
        }

        #[test]
        fn mean_and_deviation_are_those_of_two_passes(
            base in 0_u64..1 << 60, values in prop::collection::vec(0_u64..1 << 20, 2..500)
        ) {
            let report = of(&values.iter().map(|value| base + value).collect::<Vec<_>>()).report();
            let count = values.len() as f64;
            let mean = values.iter().sum::<u64>() as f64 / count;
            let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
            let off = (report.mean_ns.unwrap() - (base as f64 + mean)).abs();
            prop_assert!(off <= 1e-6 + (base as f64 * f64::EPSILON), "{}", off);
            let expected = (squares / (count - 1.0)).sqrt();
            prop_assert!((report.sd_ns.unwrap() - expected).abs() <= (expected * 1e-9) + 1e-9);
        }
    }
}
