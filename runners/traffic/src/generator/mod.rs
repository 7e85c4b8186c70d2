// SPDX-License-Identifier: GPL-2.0-or-later
//! Where intervals between packets, and their sizes, come from.
//!
//! A generator is written NAME:NUMBERS, such as `gaussian:1ms,100us` for intervals and
//! `uniform:64,1518` for sizes. Each is one small file: to add one, write it, and name it in
//! [`GENERATORS`]. All draw from one random sequence, which a seed begins: the same seed, the same
//! numbers.

mod burst;
mod listed;
mod random;
mod unit;

use rand_chacha::ChaCha8Rng;

pub use unit::Unit;

/// Random numbers that are the same on every machine.
pub type Random = ChaCha8Rng;

/// Something that gives one number after the other: nanoseconds, or bytes.
pub trait Generator: Send {
    /// The next number; it may be below zero or have a fraction, and who asked for it rounds.
    fn draw(&mut self, random: &mut Random) -> f64;

    /// The number that it always gives, if it does.
    fn constant(&self) -> Option<f64> {
        None
    }
}

/// A generator, and how a user wrote it.
pub struct Named {
    /// What was written.
    pub text: String,
    /// What was made of it.
    pub generator: Box<dyn Generator>,
}

impl Named {
    /// Make it of what a user wrote.
    ///
    /// # Errors
    /// What is wrong with it, and what was expected.
    pub fn parse(text: &str, unit: Unit) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), generator: parse(text, unit)? })
    }
}

impl std::fmt::Debug for Named {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(into)
    }
}

/// How one is written, and how it is made of the text behind its name.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What stands behind the name.
    pub form: &'static str,
    /// What it does, in words.
    pub about: &'static str,
    /// Make one; the error says what is wrong with the text.
    pub make: fn(&str, Unit) -> Made,
}

/// A generator, or what is wrong with the text that it was to be made of.
pub type Made = Result<Box<dyn Generator>, String>;

/// All of them.
pub const GENERATORS: &[Kind] = &[
    random::CONSTANT,
    random::UNIFORM,
    random::GAUSSIAN,
    random::POISSON,
    random::PARETO,
    listed::ALTERNATING,
    listed::MIX,
    listed::FILE,
    burst::BURST,
];

/// Make a generator of what a user wrote; a number alone is constant.
///
/// # Errors
/// What is wrong with it, and what was expected.
pub fn parse(text: &str, unit: Unit) -> Made {
    let Some((name, rest)) = text.split_once(':') else {
        return (random::CONSTANT.make)(text, unit);
    };
    let kind = GENERATORS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<_> = GENERATORS.iter().map(|kind| kind.name).collect();
        format!("{name}: no such generator; there are: {}", known.join(", "))
    })?;
    (kind.make)(rest, unit).map_err(|why| format!("{text}: {why}; expected {name}:{}", kind.form))
}

/// Exactly so many numbers, separated by commas.
fn numbers<const N: usize>(text: &str, unit: Unit) -> Result<[f64; N], String> {
    let found: Vec<_> = text.split(',').map(|word| unit.parse(word)).collect::<Result<_, _>>()?;
    let count = found.len();
    found.try_into().map_err(|_| format!("{count} numbers are not {N}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    pub(super) fn drawn(text: &str, unit: Unit, count: usize) -> Vec<f64> {
        let mut random = Random::seed_from_u64(7);
        let mut generator = parse(text, unit).unwrap();
        (0..count).map(|_| generator.draw(&mut random)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        for kind in ["uniform:1us,2us", "gaussian:1ms,1us", "poisson:1ms", "pareto:1ms,2"] {
            assert_eq!(drawn(kind, Unit::Time, 100), drawn(kind, Unit::Time, 100));
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, said) in [
            ("uniform:1ms", "uniform:1ms: 1 numbers are not 2; expected uniform:LEAST,MOST"),
            ("uniform:2ms,1ms", "LEAST is above MOST"),
            ("normal:1ms,1us", "normal: no such generator; there are: constant, uniform"),
            ("gaussian:1ms,1", "1: expected a number and ns, us, ms or s, such as 1.5ms"),
            ("poisson:-1ms", "-1ms: expected a number and ns, us, ms or s"),
            ("poisson:0ms", "the mean is 0"),
            ("pareto:1ms,0.5", "the shape is at most 1"),
            ("burst:0,1ms", "0 packets"),
            ("alternating:", "expected a number and ns, us, ms or s"),
            ("mix:1ms*0", "all weights are 0"),
            ("mix:1ms*-1", "weight"),
            ("file:/nowhere", "/nowhere: No such file"),
            ("1e400s", "1e400s: expected"),
            ("nans", "expected"),
        ] {
            let Err(error) = parse(text, Unit::Time) else { panic!("{text} was taken") };
            assert!(error.contains(said), "{error:?} has no {said:?}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn the_grammar_is_that_of_traffic_files() {
        let cases = include_str!("../../tests/generators.txt");
        let lines = cases.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
        assert!(lines.len() > 50);
        for line in lines {
            let [unit, is_one, text] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}: expected time or bytes, yes or no, and a generator");
            };
            let unit = if unit == "bytes" { Unit::Bytes } else { Unit::Time };
            assert_eq!(parse(text, unit).is_ok(), is_one == "yes", "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_generator_or_an_error(text in ".{0,40}", bytes: bool) {
            // A file of that name is none of ours.
            prop_assume!(!text.starts_with("file:"));
            let unit = if bytes { Unit::Bytes } else { Unit::Time };
            if let Ok(mut generator) = parse(&text, unit) {
                let mut random = Random::seed_from_u64(1);
                for _ in 0..10 {
                    prop_assert!(generator.draw(&mut random).is_finite());
                }
            }
        }
    }
}
