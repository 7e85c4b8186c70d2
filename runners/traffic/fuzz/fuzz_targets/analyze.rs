// SPDX-License-Identifier: GPL-2.0-or-later
//! Whatever a file holds, its figures are the same by one thread and by several, and the counts are
//! those of a count by hand. Files that nobody wrote are read without harm.
#![no_main]

use std::fs;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use skblab_pktstat::columns::Layout;
use skblab_pktstat::whole::{Kind, Late, Options, analyse};
use skblab_traffic::header::Clock;
use skblab_traffic::record::{FileHeader, RECORD, Record, block_header, flags};

/// Such a file is never taken for one of pairs.
const MAGIC: &[u8] = b"skbpkts\n";

#[derive(Arbitrary, Debug)]
enum Input {
    Records {
        one_clock: bool,
        blocks: Vec<(u8, Vec<[u8; RECORD]>)>,
        /// A byte that is wrong then.
        wrong: Option<(u16, u8)>,
    },
    Pairs(Vec<(u64, u64)>),
    Seconds(Vec<(f64, f64)>),
    AfterHeader(Vec<u8>),
    Anything(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Asked {
    least: u8,
    late_ns: u64,
    medians: Option<u8>,
    from: u8,
    count: u16,
    bins: u8,
}

fn figures(bytes: &[u8], layout: Layout, options: &Options) -> Option<Value> {
    let path = std::env::temp_dir().join(format!("fuzz-analyze-{}", std::process::id()));
    fs::write(&path, bytes).expect("there is room");
    let found = |threads| {
        let options = Options { layout: Some(layout), threads, ..options.clone() };
        Some(serde_json::to_value(analyse(&path, &options).ok()?).expect("it is JSON"))
    };
    let one = found(1);
    assert_eq!(one, found(2));
    one
}

fn header(one_clock: bool) -> [u8; 128] {
    let header = FileHeader {
        begun_ns: 1,
        transmission: Some(2),
        sender_clock: Some(Clock::Realtime),
        receiver_clock: Some(Clock::Realtime),
        one_clock,
        round_trip: false,
    };
    header.to_bytes()
}

/// Late packets in a row, counted one after the other.
fn check_late(found: &Value, limit: (u64, u64), latencies: impl Iterator<Item = i64>) {
    let (mut runs, mut run, mut packets) = (0, 0, 0);
    for latency in latencies.chain([-1]) {
        if u64::try_from(latency).is_ok_and(|latency| latency >= limit.1) {
            run += 1;
            continue;
        }
        if run >= limit.0 {
            runs += 1;
            packets += run;
        }
        run = 0;
    }
    assert_eq!((&found["count"], &found["packets"]), (&runs.into(), &packets.into()));
}

fuzz_target!(|input: (Asked, Input)| {
    let (asked, input) = input;
    let limit = (u64::from(asked.least).max(1), asked.late_ns);
    let mut kinds = vec![Kind { least: limit.0, late: Late::Ns(limit.1) }];
    if let Some(medians) = asked.medians {
        kinds.push(Kind { least: limit.0, late: Late::Medians(f64::from(medians) / 8.0) });
    }
    let options =
        Options { kinds, by_flow: true, most_bins: asked.bins.into(), ..Options::default() };
    let from = u64::from(asked.from);
    let cut = Options { places: from..from + u64::from(asked.count), ..options.clone() };
    let fits = |ns: u64| i64::try_from(ns).ok().filter(|&ns| ns < 1 << 62);
    match input {
        Input::Records { one_clock, blocks, wrong } => {
            let mut file = header(one_clock).to_vec();
            let (mut next, mut written) = (0, Vec::new());
            for (lost, records) in blocks.iter().filter(|(_, records)| !records.is_empty()) {
                let first = next + u64::from(*lost);
                next = first + records.len() as u64;
                file.extend(block_header(first, records.as_flattened()));
                file.extend(records.as_flattened());
                written.extend(records.iter().map(Record::from_bytes));
            }
            file.extend(block_header(next, &[]));
            if let Some((at, flip)) = wrong {
                let at = usize::from(at) % file.len();
                file[at] ^= flip;
                figures(&file, Layout::Records, &options);
                return;
            }
            figures(&file, Layout::Records, &cut).expect("it is whole");
            let found = figures(&file, Layout::Records, &options).expect("it is whole");
            assert_eq!(found["received"], written.len());
            let new = written.iter().filter(|it| it.flags & flags::NOT_COUNTED == 0);
            let timed = new.filter_map(|it| Some((fits(it.sent_ns)?, fits(it.received_ns)?, it)));
            let timed = timed.collect::<Vec<_>>();
            assert_eq!(found["packets"], timed.len());
            let realtime = |it: &Record| it.flags & flags::CLOCK == 0;
            if one_clock && timed.iter().all(|(_, _, it)| realtime(it)) {
                let latencies = timed.iter().map(|(sent, came, _)| came - sent);
                check_late(&found["late"][0], limit, latencies);
            }
        }
        Input::Pairs(pairs) => {
            let file = pairs.iter().flat_map(|it| [it.0.to_le_bytes(), it.1.to_le_bytes()]);
            let file = file.flatten().collect::<Vec<_>>();
            if file.starts_with(MAGIC) {
                return;
            }
            figures(&file, Layout::Pairs, &cut).expect("it may hold anything");
            let found = figures(&file, Layout::Pairs, &options).expect("it may hold anything");
            let latencies = pairs.iter().filter_map(|it| Some(fits(it.1)? - fits(it.0)?));
            check_late(&found["late"][0], limit, latencies);
        }
        Input::Seconds(pairs) => {
            let file = pairs.iter().flat_map(|it| [it.0.to_le_bytes(), it.1.to_le_bytes()]);
            let file = file.flatten().collect::<Vec<_>>();
            if file.starts_with(MAGIC) {
                return;
            }
            let found = figures(&file, Layout::Timestamps, &options).expect("it may hold anything");
            assert_eq!(found["received"], pairs.len());
        }
        Input::AfterHeader(bytes) => {
            let file = [&header(true)[..], &bytes].concat();
            figures(&file, Layout::Records, &options).expect("the header is whole");
        }
        Input::Anything(bytes) => {
            for layout in [Layout::Records, Layout::Pairs, Layout::Timestamps] {
                figures(&bytes, layout, &options);
            }
        }
    }
});
