// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of a distribution, and the one that has no chance in it.

use rand_distr::{Distribution, Exp, Normal, Pareto, Uniform};

use super::{Generator, Kind, Made, Random, Unit, numbers};

/// Always the same.
pub const CONSTANT: Kind = Kind {
    name: "constant",
    form: "VALUE",
    about: "always the same",
    make: |text, unit| {
        let [value] = numbers(text, unit)?;
        Ok(Box::new(Constant(value)))
    },
};

/// Each value between two as often as any other.
pub const UNIFORM: Kind = Kind {
    name: "uniform",
    form: "LEAST,MOST",
    about: "each value between two as often as any other",
    make: |text, unit| {
        let [least, most] = numbers(text, unit)?;
        if least > most {
            return Err("LEAST is above MOST".to_owned());
        }
        boxed(Uniform::new_inclusive(least, most).map_err(|error| error.to_string()))
    },
};

/// The normal distribution.
pub const GAUSSIAN: Kind = Kind {
    name: "gaussian",
    form: "MEAN,DEVIATION",
    about: "the normal distribution; what is too small becomes the smallest that there may be",
    make: |text, unit| {
        let [mean, deviation] = numbers(text, unit)?;
        boxed(Normal::new(mean, deviation).map_err(|error| error.to_string()))
    },
};

/// Exponential intervals: arrivals of a Poisson process.
pub const POISSON: Kind = Kind {
    name: "poisson",
    form: "MEAN",
    about: "exponential, so that intervals make arrivals a Poisson process",
    make: |text, unit| {
        let [mean] = numbers(text, unit)?;
        if mean == 0.0 {
            return Err("the mean is 0".to_owned());
        }
        boxed(Exp::new(1.0 / mean).map_err(|error| error.to_string()))
    },
};

/// A heavy tail.
pub const PARETO: Kind = Kind {
    name: "pareto",
    form: "LEAST,SHAPE",
    about: "a heavy tail: the mean is LEAST * SHAPE / (SHAPE - 1)",
    make: |text, unit| {
        let (least, shape) = text.split_once(',').ok_or("there is one number")?;
        let (least, shape) = (unit.parse(least)?, Unit::Bytes.parse(shape)?);
        if least == 0.0 {
            return Err("LEAST is 0".to_owned());
        }
        if shape <= 1.0 {
            return Err("the shape is at most 1, so that there is no mean".to_owned());
        }
        boxed(Pareto::new(least, shape).map_err(|error| error.to_string()))
    },
};

struct Constant(f64);

impl Generator for Constant {
    fn draw(&mut self, _random: &mut Random) -> f64 {
        self.0
    }

    fn constant(&self) -> Option<f64> {
        Some(self.0)
    }
}

struct Drawn<D>(D);

impl<D: Distribution<f64> + Send> Generator for Drawn<D> {
    fn draw(&mut self, random: &mut Random) -> f64 {
        self.0.sample(random)
    }
}

fn boxed<D: Distribution<f64> + Send + 'static>(made: Result<D, String>) -> Made {
    made.map(|distribution| Box::new(Drawn(distribution)) as Box<dyn Generator>)
}

#[cfg(test)]
mod tests {
    use super::super::tests::drawn;
    use super::*;

    const COUNT: usize = 200_000;

    /// Mean, and deviation.
    fn moments(text: &str) -> (f64, f64) {
        let found = drawn(text, Unit::Bytes, COUNT);
        let mean = found.iter().sum::<f64>() / COUNT as f64;
        let variance = found.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / COUNT as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn distributions_have_their_moments() {
        for (text, mean, deviation) in [
            ("constant:512", 512.0, 0.0),
            ("uniform:100,700", 400.0, 600.0 / 12_f64.sqrt()),
            ("gaussian:500,50", 500.0, 50.0),
            ("poisson:1000", 1000.0, 1000.0),
            // Of shape 5: mean 1.25, variance 5 / (16 * 3).
            ("pareto:1,5", 1.25, (5.0_f64 / 48.0).sqrt()),
        ] {
            let found = moments(text);
            assert!((found.0 - mean).abs() <= 0.01 * mean, "{text}: mean {}", found.0);
            assert!((found.1 - deviation).abs() <= 0.05 * deviation + 1e-9, "{text}: {}", found.1);
        }
    }
}
