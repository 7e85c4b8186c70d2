// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers that somebody has listed: in turn, by weight, or in a file.

use std::fs::File;
use std::io::{self, Read};

use rand_distr::{Distribution, weighted::WeightedIndex};

use super::{Generator, Kind, Random, Unit};

/// Several in turn.
pub const ALTERNATING: Kind = Kind {
    name: "alternating",
    form: "VALUE,VALUE,…",
    about: "these in turn",
    make: |text, unit| {
        let values = text.split(',').map(|word| unit.parse(word)).collect::<Result<_, _>>()?;
        Ok(Box::new(InTurn { values, next: 0 }))
    },
};

/// Several, by chance.
pub const MIX: Kind = Kind {
    name: "mix",
    form: "VALUE*WEIGHT,VALUE*WEIGHT,…",
    about: "these by chance, each as often as its weight says, as in an Internet mix (IMIX)",
    make: |text, unit| {
        let mut values = Vec::new();
        let mut weights = Vec::new();
        for word in text.split(',') {
            let (value, weight) = word.split_once('*').unwrap_or((word, "1"));
            values.push(unit.parse(value)?);
            weights.push(Unit::Bytes.parse(weight).map_err(|_| format!("{weight} is no weight"))?);
        }
        let by = WeightedIndex::new(&weights).map_err(|_| "all weights are 0".to_owned())?;
        Ok(Box::new(Mix { values, by }))
    },
};

/// Several in turn, of a file.
pub const FILE: Kind = Kind {
    name: "file",
    form: "PATH, a file with a number in each line",
    about: "the lines of a file in turn, and from its beginning again",
    make: |path, unit| {
        let text = read(path).map_err(|error| format!("{path}: {error}"))?;
        let values = text
            .lines()
            .enumerate()
            .map(|(number, line)| {
                unit.parse(line.trim()).map_err(|why| format!("line {}: {why}", number + 1))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if values.is_empty() {
            return Err("it is empty".to_owned());
        }
        Ok(Box::new(InTurn { values, next: 0 }))
    },
};

/// Numbers that somebody has recorded fit into this.
const MOST_BYTES: u64 = 64 << 20;

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it has more than 64 MiB"));
    }
    Ok(text)
}

struct InTurn {
    values: Vec<f64>,
    next: usize,
}

impl Generator for InTurn {
    fn draw(&mut self, _random: &mut Random) -> f64 {
        let value = self.values[self.next];
        self.next = (self.next + 1) % self.values.len();
        value
    }
}

struct Mix {
    values: Vec<f64>,
    by: WeightedIndex<f64>,
}

impl Generator for Mix {
    fn draw(&mut self, random: &mut Random) -> f64 {
        self.values[self.by.sample(random)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::drawn;
    use super::super::{Unit, parse};
    use std::fs;

    #[test]
    fn in_turn_and_from_the_begin_again() {
        assert_eq!(drawn("alternating:1ms,2ms", Unit::Time, 3), [1e6, 2e6, 1e6]);
        let file = std::env::temp_dir().join(format!("skblab-traffic-{}", std::process::id()));
        fs::write(&file, "64\n1518\n").unwrap();
        let text = format!("file:{}", file.display());
        assert_eq!(drawn(&text, Unit::Bytes, 3), [64.0, 1518.0, 64.0]);
        fs::write(&file, "64\nmany\n").unwrap();
        assert!(parse(&text, Unit::Bytes).is_err_and(|error| error.contains("line 2: many")));
        assert!(parse("file:/dev/zero", Unit::Bytes).is_err_and(|error| error.contains("64 MiB")));
        fs::write(&file, "").unwrap();
        assert!(parse(&text, Unit::Bytes).is_err_and(|error| error.contains("it is empty")));
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_mix_has_its_weights() {
        let found = drawn("mix:64*7,594*4,1518*1", Unit::Bytes, 120_000);
        for (size, share) in [(64.0, 7.0), (594.0, 4.0), (1518.0, 1.0)] {
            let count = found.iter().filter(|&&drawn| (drawn - size).abs() < 0.5).count() as f64;
            assert!((count / 10_000.0 - share).abs() < 0.1, "{size}: {count}");
        }
    }
}
