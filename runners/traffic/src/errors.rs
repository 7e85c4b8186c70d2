// SPDX-License-Identifier: GPL-2.0-or-later
//! Failed calls, counted by what the kernel said.

use std::collections::BTreeMap;

use nix::errno::Errno;

/// Failed calls by errno.
#[derive(Clone, Debug, Default)]
pub struct Errors(BTreeMap<i32, u64>);

impl Errors {
    /// Count so many.
    pub fn add(&mut self, why: Errno, count: u64) {
        *self.0.entry(why as i32).or_default() += count;
    }

    /// Count those of others, too.
    pub fn join(&mut self, others: &Self) {
        for (&number, count) in &others.0 {
            *self.0.entry(number).or_default() += count;
        }
    }

    /// How many of each, by its name.
    #[must_use]
    pub fn named(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(&number, &n)| (format!("{:?}", Errno::from_raw(number)), n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_their_names() {
        let (mut errors, mut others) = (Errors::default(), Errors::default());
        assert!(errors.named().is_empty());
        errors.add(Errno::ECONNREFUSED, 1);
        others.add(Errno::ECONNREFUSED, 2);
        others.add(Errno::ENOBUFS, 3);
        errors.join(&others);
        let expected = [("ECONNREFUSED", 3), ("ENOBUFS", 3)];
        assert_eq!(errors.named(), expected.map(|(name, n)| (name.to_owned(), n)).into());
    }
}
