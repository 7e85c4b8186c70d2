// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes a file of packets up, to try `skblab analyze` on: `make_records FILE FORMAT COUNT [LATE]`.
//!
//! FORMAT is `records`, `timestamps` or `pairs`. A packet is sent every 1000 ns and takes 10 to 11 µs; one
//! in ten thousand takes up to 100 µs more, and packet 100 of each hundred thousand 2 ms more. None
//! overtakes another, and they come 100 ns apart at least, as from a queue. With `all` for LATE each
//! packet takes 2 ms more, with `each` two of four: these do overtake.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use skblab_traffic::header::Clock;
use skblab_traffic::record::{FileHeader, MOST_RECORDS, RECORD, Record, block_header};

const USAGE: &str = "usage: make_records FILE records|timestamps|pairs COUNT [all|each]";
const MORE_NS: u64 = 2_000_000;

/// Like throws of dice, and always the same ones.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn latency(dice: &mut Dice, number: u64, late: Option<&str>) -> u64 {
    let usual = 10_000 + dice.below(500) + dice.below(500);
    let rare = if dice.below(10_000) == 0 { dice.below(100_000) } else { 0 };
    let more = match late {
        Some("all") => true,
        Some("each") => number % 4 < 2,
        _ => number % 100_000 == 100,
    };
    usual + rare + if more { MORE_NS } else { 0 }
}

#[allow(clippy::cast_precision_loss)]
fn pair(format: &str, sent: u64, received: u64) -> [u8; 16] {
    let bytes = if format == "pairs" {
        [sent, received].map(u64::to_le_bytes)
    } else {
        [sent, received].map(|ns| (ns as f64 / 1e9).to_le_bytes())
    };
    let mut pair = [0; 16];
    pair.copy_from_slice(bytes.as_flattened());
    pair
}

fn main() -> io::Result<()> {
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    let (Some(file), Some(format), Some(count)) = (words.first(), words.get(1), words.get(2))
    else {
        return Err(io::Error::other(USAGE));
    };
    let count = count.parse::<u64>().map_err(|_| io::Error::other(USAGE))?;
    let late = words.get(3).map(String::as_str);
    let mut to = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut free = 0;
    let made = (0..count).map(|number| {
        let sent = 1_000_000_000 + number * 1000;
        let came = sent + latency(&mut dice, number, late);
        let came = if late == Some("each") { came } else { came.max(free) };
        free = came + 100;
        (number, sent, came)
    });
    if format != "records" {
        for (_, sent, received) in made {
            to.write_all(&pair(format, sent, received))?;
        }
        return to.flush();
    }
    let header = FileHeader {
        begun_ns: 1_000_000_000,
        transmission: Some(1),
        sender_clock: Some(Clock::Realtime),
        receiver_clock: Some(Clock::Realtime),
        one_clock: true,
        round_trip: false,
    };
    to.write_all(&header.to_bytes())?;
    let (mut block, mut first) = (Vec::new(), 0);
    let write = |to: &mut BufWriter<File>, first: u64, block: &[u8]| {
        to.write_all(&block_header(first, block))?;
        to.write_all(block)
    };
    for (sequence, sent_ns, received_ns) in made {
        let record =
            Record { sequence, sent_ns, received_ns, flow: 0, payload_bytes: 64, flags: 0 };
        block.extend(record.to_bytes());
        if block.len() == MOST_RECORDS * RECORD {
            write(&mut to, first, &block)?;
            first = sequence + 1;
            block.clear();
        }
    }
    if !block.is_empty() {
        write(&mut to, first, &block)?;
    }
    write(&mut to, count, &[])?;
    to.flush()
}
