// SPDX-License-Identifier: GPL-2.0-or-later
//! Files as they come, whole and damaged, against figures made in the simplest way that there is.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a test that fails says so")]

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use serde_json::Value;
use skblab_pktstat::columns::Layout;
use skblab_pktstat::signed;
use skblab_pktstat::source::Refused;
use skblab_pktstat::whole::{Kind, Late, Options, analyse};
use skblab_traffic::header::Clock;
use skblab_traffic::record::{
    BLOCK_HEADER, FILE_HEADER, FileHeader, RECORD, Record, block_header, flags,
};

const HEADER: FileHeader = FileHeader {
    begun_ns: 0,
    transmission: Some(1),
    sender_clock: Some(Clock::Realtime),
    receiver_clock: Some(Clock::Realtime),
    one_clock: true,
    round_trip: false,
};

/// A file that goes with its test.
struct Made(PathBuf);

impl Made {
    fn new(bytes: &[u8]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("skblab-pktstat-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn figures(&self, options: &Options) -> Value {
        let report = analyse(&self.0, options).unwrap();
        let mut found = serde_json::to_value(report).unwrap();
        found["file"] = Value::Null;
        found
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn records(packets: &[Record], in_block: usize) -> Vec<u8> {
    let mut file = HEADER.to_bytes().to_vec();
    for (number, block) in packets.chunks(in_block).enumerate() {
        let bytes = block.iter().flat_map(|record| record.to_bytes()).collect::<Vec<_>>();
        file.extend(block_header((number * in_block) as u64, &bytes));
        file.extend(bytes);
    }
    file.extend(block_header(packets.len() as u64, &[]));
    file
}

fn pairs(packets: &[Record], seconds: bool) -> Vec<u8> {
    let pair = |record: &Record| {
        let times = [record.sent_ns, record.received_ns];
        let number = |ns: u64| if seconds { (ns as f64 / 1e9).to_bits() } else { ns };
        times.map(|ns| number(ns).to_le_bytes()).concat()
    };
    packets.iter().flat_map(pair).collect()
}

fn kinds() -> Vec<Kind> {
    [(1, 6), (2, 4), (3, 0)].map(|(least, ns)| Kind { least, late: Late::Ns(ns) }).to_vec()
}

fn options() -> Options {
    Options { kinds: kinds(), by_flow: true, most_bins: 7, ..Options::default() }
}

/// Packets with all that may befall them: `what` says which.
fn packet((what, took, sequence, flow, step): (u8, i64, u64, u16, u64)) -> (Record, u64) {
    let flags = match what {
        0 => flags::DUPLICATE,
        1 => flags::FOREIGN,
        2 => flags::OTHER_TRANSMISSION,
        3 => flags::TOO_OLD,
        4 => flags::BEYOND,
        5 => flags::NOT_BY_KERNEL,
        _ => 0,
    };
    let record = Record {
        sequence,
        sent_ns: took.unsigned_abs(),
        received_ns: u64::from(took >= 0),
        flow,
        payload_bytes: 100,
        flags,
    };
    (record, step)
}

/// Most are in order; each number is new once.
fn any_packets(most: usize) -> impl Strategy<Value = Vec<Record>> {
    let one = (any::<u8>(), -2_i64..9, any::<u8>(), 0_u16..3, 0_u64..2000);
    prop::collection::vec(one, 0..most).prop_map(|made| {
        let (mut now, mut next, mut seen) = (1_000_000, 0, HashSet::<u64>::new());
        let mut packets = Vec::new();
        for (what, took, jump, flow, step) in made {
            let (mut record, step) = packet((what, took, 0, flow, step));
            now += step;
            record.received_ns = now;
            record.sent_ns = now.checked_add_signed(-took).unwrap();
            next += u64::from(jump == 1) * 5 + 1;
            record.sequence = if jump < 8 { next.saturating_sub(jump.into()) } else { next };
            if record.flags & flags::NOT_COUNTED == 0 && !seen.insert(record.sequence) {
                record.flags |= flags::DUPLICATE;
            }
            packets.push(record);
        }
        packets
    })
}

/// Packet after packet, all in memory.
fn compare_slow(packets: &[Record], found: &Value) -> Result<(), TestCaseError> {
    let has = |flag: u32| packets.iter().filter(|it| it.flags & flag != 0).count();
    let new = packets.iter().filter(|it| it.flags & flags::NOT_COUNTED == 0).collect::<Vec<_>>();
    let took = |it: &Record| signed(it.received_ns) - signed(it.sent_ns);
    prop_assert_eq!(&found["received"], packets.len());
    prop_assert_eq!(&found["packets"], new.len());
    prop_assert_eq!(&found["duplicates"], has(flags::DUPLICATE));
    prop_assert_eq!(&found["foreign"], has(flags::FOREIGN));
    let own = |it: &&Record| it.flags & (flags::FOREIGN | flags::OTHER_TRANSMISSION) == 0;
    prop_assert_eq!(&found["bytes"], 100 * packets.iter().filter(own).count());
    let highest = new.iter().map(|it| it.sequence + 1).max().unwrap_or(0);
    prop_assert_eq!(&found["lost"], highest - new.len() as u64);
    let reordered = (0..new.len())
        .filter_map(|at| {
            let first = new[..at].iter().position(|it| it.sequence > new[at].sequence)?;
            Some(at - first)
        })
        .collect::<Vec<_>>();
    prop_assert_eq!(&found["reordered"]["count"], reordered.len());
    let farthest = reordered.iter().max().map_or(Value::Null, |&it| it.into());
    prop_assert_eq!(&found["reordered"]["extent_packets"]["max"], &farthest);
    let latencies = new.iter().map(|it| took(it)).collect::<Vec<_>>();
    let jitter = new.windows(2).map(|two| (took(two[1]) - took(two[0])).abs());
    let between = new.windows(2);
    let between = between.map(|it| signed(it[1].received_ns) - signed(it[0].received_ns));
    compare_times(&latencies, &found["latency_ns"])?;
    compare_times(&jitter.collect::<Vec<_>>(), &found["jitter_ns"])?;
    compare_times(&between.collect::<Vec<_>>(), &found["inter_arrival_ns"])?;
    for (kind, said) in kinds().iter().zip(found["late"].as_array().unwrap()) {
        let Late::Ns(late) = kind.late else { unreachable!() };
        let is_late = |took: &&i64| {
            took.is_positive() && took.unsigned_abs() >= late || **took == 0 && late == 0
        };
        let marks = latencies.iter().map(|took| is_late(&took)).collect::<Vec<_>>();
        let runs = marks.chunk_by(|one, other| one == other).filter(|run| run[0]);
        let long = runs.map(<[bool]>::len).filter(|&run| run as u64 >= kind.least);
        let long = long.collect::<Vec<_>>();
        prop_assert_eq!(&said["count"], long.len());
        prop_assert_eq!(&said["packets"], long.iter().sum::<usize>());
        let open = |mark: Option<&bool>, run: Option<&[bool]>| {
            mark == Some(&true) && run.is_some_and(|run| run.len() as u64 >= kind.least)
        };
        let bins = said["over_time"]["rows"].as_array().unwrap();
        prop_assert!(bins.len() <= 7);
        let sum = |name: &str| bins.iter().map(|it| it[name].as_u64().unwrap()).sum::<u64>();
        prop_assert_eq!(sum("anomalies"), long.len() as u64);
        prop_assert_eq!(sum("packets"), long.iter().sum::<usize>() as u64);
        let longest = bins.iter().map(|it| it["longest_ns"].as_u64().unwrap()).max();
        prop_assert_eq!(longest, said["duration_ns"]["max"].as_u64());
        let begin = open(marks.first(), marks.chunk_by(|one, other| one == other).next());
        let end = open(marks.last(), marks.chunk_by(|one, other| one == other).last());
        prop_assert_eq!(&said["open_begin"], begin);
        prop_assert_eq!(&said["open_end"], end);
    }
    for flow in 0..3 {
        let of = new.iter().filter(|it| it.flow == flow).count();
        let rows = found["flows"].as_array().unwrap();
        let said = rows
            .iter()
            .find(|row| row["flow"] == flow)
            .map_or(0, |row| row["packets"].as_u64().unwrap());
        prop_assert_eq!(said, of as u64);
        // All latencies are below 128 ns, where buckets are exact.
        let mut of_flow = new.iter().filter(|it| it.flow == flow).map(|it| took(it));
        let mut counted = std::collections::BTreeMap::<i64, u64>::new();
        of_flow
            .by_ref()
            .filter(|&took| took >= 0)
            .for_each(|it| *counted.entry(it).or_default() += 1);
        let counted = counted.iter().map(|(&it, &count)| serde_json::json!([it, it, count]));
        let counted = counted.collect::<Vec<_>>();
        let row = rows.iter().find(|row| row["flow"] == flow);
        let held = row.and_then(|row| row["histogram"].as_array());
        prop_assert_eq!(held.cloned().unwrap_or_default(), counted);
    }
    let rows = found["over_time"]["rows"].as_array().unwrap();
    prop_assert!(rows.len() <= 7);
    prop_assert_eq!(
        rows.iter().map(|it| it["packets"].as_u64().unwrap()).sum::<u64>(),
        new.len() as u64
    );
    Ok(())
}

fn compare_times(values: &[i64], said: &Value) -> Result<(), TestCaseError> {
    let mut kept = values.iter().copied().filter(|&value| value >= 0).collect::<Vec<_>>();
    kept.sort_unstable();
    prop_assert_eq!(&said["count"], kept.len());
    prop_assert_eq!(&said["negative"], values.len() - kept.len());
    let end = |value: Option<&i64>| value.map_or(Value::Null, |&value| value.into());
    prop_assert_eq!(&said["min"], &end(kept.first()));
    prop_assert_eq!(&said["max"], &end(kept.last()));
    if !kept.is_empty() {
        let count = kept.len() as f64;
        let mean = kept.iter().sum::<i64>() as f64 / count;
        prop_assert!((said["mean"].as_f64().unwrap() - mean).abs() < 1e-6);
        let squares = kept.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>();
        let sd = said["sd"].as_f64();
        prop_assert!(sd.is_none_or(|sd| (sd - (squares / (count - 1.0)).sqrt()).abs() < 1e-6));
    }
    Ok(())
}

fn refused(bytes: &[u8], layout: Option<Layout>) -> String {
    let made = Made::new(bytes);
    match analyse(&made.0, &Options { layout, ..Options::default() }) {
        Err(Refused::Usage(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_file_of_packets_is_said() {
    assert!(refused(b"", None).contains("it is empty"));
    assert!(refused(b"something else", None).contains("does not begin as records do"));
    assert!(refused(b"", Some(Layout::Records)).contains("shorter than the header"));
    assert!(refused(&records(&[], 1), Some(Layout::Pairs)).contains("leave --format out"));
    let mut version = HEADER.to_bytes();
    version[8] = 2;
    assert!(refused(&version, None).contains("its version is not 1"));
    let mut damaged = HEADER.to_bytes();
    damaged[30] ^= 1;
    assert!(refused(&damaged, None).contains("its header is damaged"));
    let folder = analyse(&std::env::temp_dir(), &Options::default());
    assert!(matches!(folder, Err(Refused::Usage(why)) if why.contains("no regular file")));
}

#[test]
fn empty_files_have_no_figures_and_no_trouble() {
    for (bytes, layout) in [(records(&[], 1), Layout::Records), (Vec::new(), Layout::Pairs)] {
        let found = Made::new(&bytes).figures(&Options { layout: Some(layout), ..options() });
        assert_eq!((&found["packets"], &found["rate"]), (&0.into(), &Value::Null));
        assert_eq!(found["latency_ns"]["mean"], Value::Null);
        assert_eq!(
            (&found["late"][0]["count"], found["troubles"].as_array().unwrap().len()),
            (&0.into(), 0)
        );
    }
}

#[test]
fn one_packet_is_an_anomaly_that_is_open_at_both_ends() {
    let one = Record { sent_ns: 10, received_ns: 17, ..Record::default() };
    let found = Made::new(&records(&[one], 1)).figures(&options());
    let late = &found["late"][0];
    assert_eq!(
        (&late["count"], &late["open_begin"], &late["open_end"]),
        (&1.into(), &true.into(), &true.into())
    );
    assert_eq!((&found["late"][1]["count"], &found["jitter_ns"]["count"]), (&0.into(), &0.into()));
    assert_eq!((&found["latency_ns"]["mean"], &found["seconds"]), (&7.0.into(), &0.0.into()));
}

#[test]
fn two_clocks_have_jitter_and_no_latency() {
    let header = FileHeader { one_clock: false, ..HEADER };
    let packets = [(5, 100), (10, 111)].map(|(sent_ns, received_ns)| Record {
        sent_ns,
        received_ns,
        ..Record::default()
    });
    let mut file = records(&packets, 2);
    file[..FILE_HEADER].copy_from_slice(&header.to_bytes());
    let made = Made::new(&file);
    let found = made.figures(&options());
    assert_eq!((&found["latency_ns"], &found["late"]), (&Value::Null, &Value::Null));
    assert!(found["unknown"]["latency_ns"].as_str().unwrap().contains("--same-clock"));
    assert_eq!(found["jitter_ns"]["max"], 6);
    let same = made.figures(&Options { same_clock: true, ..options() });
    assert_eq!(same["latency_ns"]["max"], 101);
}

#[test]
fn a_median_is_found_first() {
    let packets = (0..101).map(|at: u64| Record {
        sequence: at,
        sent_ns: at * 1000,
        received_ns: at * 1000 + if at == 50 { 100 } else { 10 },
        ..Record::default()
    });
    let made = Made::new(&records(&packets.collect::<Vec<_>>(), 10));
    let kinds = vec![Kind { least: 1, late: Late::Medians(2.5) }];
    let found = made.figures(&Options { kinds, ..Options::default() });
    let late = &found["late"][0];
    assert_eq!(
        (&late["late_ns"], &late["of_median"], &late["count"]),
        (&25.into(), &2.5.into(), &1.into())
    );
    assert_eq!(late["longest"][0]["place"], 50);
}

#[test]
fn numbers_that_begin_anew_are_no_loss() {
    let packets = (0..20_u64).map(|at| Record {
        sequence: at.wrapping_sub(10),
        sent_ns: at * 1000,
        received_ns: at * 1000 + 10,
        ..Record::default()
    });
    let found = Made::new(&records(&packets.collect::<Vec<_>>(), 7)).figures(&options());
    assert_eq!((&found["packets"], &found["lost"]), (&20.into(), &Value::Null));
    assert_eq!((&found["missing"], &found["lost_share"]), (&Value::Null, &Value::Null));
    for name in ["lost", "missing"] {
        assert!(found["unknown"][name].as_str().unwrap().contains("began anew"));
    }
}

#[test]
fn a_clock_that_steps_is_seen() {
    let times =
        [(0, 100), (1000, 1100), (2000, 1_000_002_100), (3000, 1_000_003_100), (4000, 4100)];
    let packets = times.map(|(sent_ns, received_ns)| Record {
        sequence: sent_ns / 1000,
        sent_ns,
        received_ns,
        ..Record::default()
    });
    let found = Made::new(&records(&packets, 2)).figures(&options());
    assert_eq!(
        (&found["inter_arrival_ns"]["negative"], &found["inter_arrival_ns"]["max"]),
        (&1.into(), &1_000_001_000.into())
    );
    assert_eq!((&found["jitter_ns"]["max"], &found["lost"]), (&1_000_000_000.into(), &0.into()));
    let back = packets.map(|record| Record { sent_ns: record.sent_ns + 500, ..record });
    assert_eq!(Made::new(&records(&back, 2)).figures(&options())["latency_ns"]["negative"], 3);
}

#[test]
fn numbers_to_the_very_end() {
    let packets =
        [u64::MAX - 1, u64::MAX, 0].map(|sequence| Record { sequence, ..Record::default() });
    let found = Made::new(&records(&packets, 3)).figures(&options());
    assert_eq!((&found["reordered"]["count"], &found["missing"]), (&1.into(), &Value::Null));
}

#[test]
fn all_anomalies_are_listed_and_a_part_is_no_list() {
    let packets = (0..40).map(|at: u64| Record {
        sequence: at,
        sent_ns: at * 10,
        received_ns: at * 10 + if at % 4 < 2 { 9 } else { 1 },
        ..Record::default()
    });
    let made = Made::new(&records(&packets.collect::<Vec<_>>(), 7));
    let list = Made::new(b"before");
    let options = Options {
        kinds: vec![Kind { least: 2, late: Late::Ns(5) }],
        list: Some(list.0.clone()),
        ..Options::default()
    };
    assert_eq!(made.figures(&options)["late"][0]["count"], 10);
    let lines = fs::read_to_string(&list.0).unwrap();
    let lines = lines.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[1], "2,5,0,0,2,9,19,10,9,9,9,true,false");
    assert_eq!(lines[10], "2,5,36,36,2,369,379,10,9,9,9,false,false");
    let nowhere = Options { list: Some("/nowhere/at/all".into()), ..options };
    let why = "the list of anomalies cannot be written: No such file";
    let refused = analyse(&made.0, &nowhere);
    assert!(matches!(&refused, Err(Refused::Failed(said)) if said.contains(why)), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn figures_are_those_of_a_slow_count(packets in any_packets(400), in_block in 1_usize..200) {
        let made = Made::new(&records(&packets, in_block));
        let one = made.figures(&options());
        compare_slow(&packets, &one)?;
        let several = made.figures(&Options { threads: 3, ..options() });
        prop_assert_eq!(several, one);
    }

    /// What is whole counts, and what is not is told.
    #[test]
    fn damage_costs_no_more_than_its_blocks(
        packets in any_packets(300), in_block in 1_usize..40, at: prop::sample::Index, cut: bool
    ) {
        prop_assume!(!packets.is_empty());
        let mut bytes = records(&packets, in_block);
        let at = FILE_HEADER + at.index(bytes.len() - FILE_HEADER);
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 0x40;
        }
        let found = Made::new(&bytes).figures(&Options { threads: 2, ..options() });
        prop_assert!(!found["troubles"].as_array().unwrap().is_empty());
        let mut end = FILE_HEADER;
        let kept = packets.chunks(in_block).filter_map(|block| {
            let begin = end;
            end += BLOCK_HEADER + block.len() * RECORD;
            let whole = if cut { end <= at } else { !(begin..end).contains(&at) };
            whole.then_some(block.len())
        });
        prop_assert_eq!(&found["received"], kept.sum::<usize>());
    }

    #[test]
    fn a_cut_is_that_part(packets in any_packets(300), from in 0_usize..300, count in 1_usize..300, flow in 0_u16..3) {
        let made = Made::new(&records(&packets, 16));
        let end = packets.len().min(from + count);
        let part = packets.get(from..end).unwrap_or(&[]);
        let cut = Options { places: from as u64..(from + count) as u64, threads: 2, ..options() };
        let found = made.figures(&cut);
        prop_assert_eq!(&found["received"], part.len());
        let whole = Made::new(&records(part, 16)).figures(&options());
        for name in ["latency_ns", "jitter_ns", "inter_arrival_ns", "late", "reordered"] {
            let without = |found: &Value| {
                let mut found = found[name].clone();
                for late in found.as_array_mut().into_iter().flatten() {
                    late["longest"] = Value::Null;
                    late["over_time"] = Value::Null;
                }
                found
            };
            prop_assert_eq!(without(&found), without(&whole));
        }
        let of = packets.iter().filter(|it| it.flow == flow && it.flags & flags::NOT_COUNTED == 0);
        let one = made.figures(&Options { flow: Some(flow), ..options() });
        prop_assert_eq!(&one["packets"], of.count());
        prop_assert_eq!(&one["lost"], &Value::Null);
        let first = packets.first().map_or(0, |it| it.received_ns);
        let after = 5000..200_000;
        let times = packets.iter().filter(|it| after.contains(&(it.received_ns - first)));
        let timed = made.figures(&Options { after_ns: 5000..200_000, ..options() });
        prop_assert_eq!(&timed["received"], times.count());
    }

    #[test]
    fn any_bytes_are_safe(bytes: Vec<u8>, threads in 1_usize..3) {
        for layout in [None, Some(Layout::Pairs), Some(Layout::Timestamps), Some(Layout::Records)] {
            let made = Made::new(&[&HEADER.to_bytes()[..], &bytes].concat());
            let _ = analyse(&made.0, &Options { layout, threads, ..options() });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Some pieces, with edges everywhere; and the three formats say the same.
    #[test]
    fn formats_and_threads_agree(packets in any_packets(50_000)) {
        let of = |bytes: &[u8], layout, threads| {
            let mut found = Made::new(bytes).figures(&Options { layout: Some(layout), threads, ..options() });
            let names = ["latency_ns", "jitter_ns", "inter_arrival_ns", "over_time", "late", "packets"];
            let mut kept = names.map(|name| found[name].take());
            for late in kept[4].as_array_mut().unwrap() {
                late["longest"] = Value::Null;
            }
            kept
        };
        let new = packets.iter().map(|it| Record { flags: 0, ..*it }).collect::<Vec<_>>();
        let right = of(&records(&new, 4096), Layout::Records, 1);
        for threads in [1, 2, 4] {
            prop_assert_eq!(&of(&records(&new, 4096), Layout::Records, threads), &right);
            prop_assert_eq!(&of(&pairs(&new, false), Layout::Pairs, threads), &right);
            prop_assert_eq!(&of(&pairs(&new, true), Layout::Timestamps, threads), &right);
        }
    }
}
