// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers as users write them: times with their unit, or bytes.

/// What numbers stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, written as `1.5ms`.
    Time,
    /// Bytes, written as `512`.
    Bytes,
}

/// Units of time, the longest name first.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Nothing that is larger is meant: a year, in nanoseconds.
const MOST: f64 = 3.2e16;

impl Unit {
    /// Take one number, in nanoseconds or bytes.
    pub(super) fn parse(self, text: &str) -> Result<f64, String> {
        let (factor, digits) = match self {
            Self::Bytes => (1.0, Some(text)),
            Self::Time => {
                let found = TIMES.iter().find(|(name, _)| text.ends_with(name));
                let (name, factor) = found.copied().unwrap_or(("", 1.0));
                (factor, found.map(|_| &text[..text.len() - name.len()]))
            }
        };
        let number = digits.and_then(|digits| digits.parse::<f64>().ok()).map(|n| n * factor);
        number.filter(|number| (0.0..=MOST).contains(number)).ok_or_else(|| match self {
            Self::Bytes => format!("{text}: expected bytes, such as 512"),
            Self::Time => format!("{text}: expected a number and ns, us, ms or s, such as 1.5ms"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, nanoseconds) in [("1.5ms", 1.5e6), ("7ns", 7.0), ("2s", 2e9), (".5us", 500.0)] {
            assert_eq!(Unit::Time.parse(text), Ok(nanoseconds));
        }
        for text in ["", "1", "ms", "1 ms", "-1ms", "1m", "infs", "1e99s"] {
            assert!(Unit::Time.parse(text).is_err(), "{text}");
        }
        assert_eq!(Unit::Bytes.parse("512"), Ok(512.0));
        assert!(Unit::Bytes.parse("512B").is_err());
    }
}
