// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets back to back, and then a pause.

use super::{Generator, Kind, Random, Unit};

/// So many at once.
pub const BURST: Kind = Kind {
    name: "burst",
    form: "PACKETS,TIME",
    about: "so many packets back to back, and the next so many TIME after they began",
    make: |text, unit| {
        let (packets, every) = text.split_once(',').ok_or("there is one number")?;
        let packets: u64 = packets.parse().map_err(|_| format!("{packets} is no whole number"))?;
        if packets == 0 {
            return Err("0 packets are no burst".to_owned());
        }
        if unit == Unit::Bytes {
            return Err("a burst is of intervals, not of sizes".to_owned());
        }
        Ok(Box::new(Burst { packets, every: unit.parse(every)?, left: packets }))
    },
};

struct Burst {
    packets: u64,
    every: f64,
    left: u64,
}

impl Generator for Burst {
    fn draw(&mut self, _random: &mut Random) -> f64 {
        self.left -= 1;
        if self.left > 0 {
            return 0.0;
        }
        self.left = self.packets;
        self.every
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::drawn;
    use super::super::{Unit, parse};

    #[test]
    fn bursts_begin_at_their_time() {
        assert_eq!(drawn("burst:3,1ms", Unit::Time, 6), [0.0, 0.0, 1e6, 0.0, 0.0, 1e6]);
        assert_eq!(drawn("burst:1,1ms", Unit::Time, 2), [1e6, 1e6]);
        assert!(parse("burst:3,100", Unit::Bytes).is_err());
    }
}
