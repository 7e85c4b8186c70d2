// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole numbers of 256 bits: sums of squares, exact whatever the values and however many.

/// A number from 0 to 2^256 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wide {
    high: u128,
    low: u128,
}

const HALF: u32 = 64;
const LOWER: u128 = (1 << HALF) - 1;

impl From<u128> for Wide {
    fn from(low: u128) -> Self {
        Self { high: 0, low }
    }
}

impl Wide {
    /// The product of two numbers.
    #[must_use]
    pub fn product(one: u128, other: u128) -> Self {
        let (a, b) = (one >> HALF, one & LOWER);
        let (c, d) = (other >> HALF, other & LOWER);
        let (first, carry) = (a * d).overflowing_add(b * c);
        let (low, more) = (b * d).overflowing_add(first << HALF);
        let high = a * c + (first >> HALF) + (u128::from(carry) << HALF) + u128::from(more);
        Self { high, low }
    }

    /// The sum; what is beyond 256 bits is lost, which no sum of fewer than 2^64 squares reaches.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        Self { high: self.high.wrapping_add(other.high).wrapping_add(u128::from(carry)), low }
    }

    /// The difference from a number that is not larger.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self { high: self.high.wrapping_sub(other.high).wrapping_sub(u128::from(borrow)), low }
    }

    /// So many times this number.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        let upper = self.high.wrapping_mul(u128::from(count));
        Self::product(self.low, u128::from(count)).plus(Self { high: upper, low: 0 })
    }

    /// The nearest float, nearly.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        const TWO_TO_128: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;
        self.high as f64 * TWO_TO_128 + self.low as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_numbers_fit() {
        let square = Wide::product(u128::MAX, u128::MAX);
        assert_eq!(square, Wide { high: u128::MAX - 1, low: 1 });
        assert_eq!(square.minus(square), Wide::default());
        assert!((Wide { high: 1, low: 0 }.to_f64() - 2_f64.powi(128)).abs() < 1.0);
    }

    proptest! {
        #[test]
        fn small_numbers_are_as_usual(a: u64, b: u64, c: u32) {
            let (wide_a, wide_b) = (u128::from(a), u128::from(b));
            prop_assert_eq!(Wide::product(wide_a, wide_b), (wide_a * wide_b).into());
            let sum = Wide::from(wide_a).plus(wide_b.into());
            prop_assert_eq!(sum, (wide_a + wide_b).into());
            prop_assert_eq!(sum.minus(wide_b.into()), wide_a.into());
            prop_assert_eq!(sum.times(c.into()), ((wide_a + wide_b) * u128::from(c)).into());
        }

        /// (a + b)² = a² + 2ab + b², beyond 128 bits.
        #[test]
        fn a_binomial_is_so(a in 0..u128::MAX / 2, b in 0..u128::MAX / 2) {
            let twice = Wide::product(a, b).times(2);
            let sum = Wide::product(a, a).plus(twice).plus(Wide::product(b, b));
            prop_assert_eq!(Wide::product(a + b, a + b), sum);
        }
    }
}
