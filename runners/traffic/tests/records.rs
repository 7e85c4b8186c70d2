// SPDX-License-Identifier: GPL-2.0-or-later
//! What the receiver keeps of each packet, and what it says of their times.
#![allow(clippy::unwrap_used, reason = "a test that fails should panic where it fails")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use skblab_traffic::clock::realtime_ns;
use skblab_traffic::header::{Clock, Header, LEN};
use skblab_traffic::receive::{Plan, Receiver};
use skblab_traffic::record::{FileHeader, Reader, Record, Trouble, flags};
use skblab_traffic::recorder::Recorder;
use skblab_traffic::report::ReceiveReport;
use skblab_traffic::timing::Clocks;

const BINARY: &str = env!("CARGO_BIN_EXE_skblab-traffic");
const GOLDEN: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/analysis/golden/packets.rec");
/// Longer than any of it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of this test alone, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("skblab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("packets.rec")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn plan(clocks: Clocks) -> Plan {
    Plan {
        bind: "127.0.0.1:0".parse().unwrap(),
        device: None,
        xdp: false,
        expect: Some(6),
        transmission: Some(9),
        idle: Duration::from_secs(1),
        linger: Duration::from_millis(50),
        limit: PATIENCE,
        rcvbuf: None,
        clocks,
        interval_ns: None,
    }
}

fn header(transmission: u16, sequence: u64, clock: Clock, stamp: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let stamp = stamp & ((1 << 48) - 1);
    Header { transmission, sequence, pktgen: false, clock, stamp }.write(&mut bytes);
    bytes
}

fn pktgen(sequence: u32, seconds: u32, micros: u32) -> Vec<u8> {
    let words = [0xbe9b_e955, sequence, seconds, micros];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn receive(plan: &Plan, file: &Path, traffic: impl FnOnce(SocketAddr)) -> ReceiveReport {
    let stop = AtomicBool::new(false);
    let receiver = Receiver::bind(plan, &stop).unwrap().record(Recorder::create(file).unwrap());
    let to = receiver.local_addr().unwrap();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run().unwrap());
        traffic(to);
        receiving.join().unwrap()
    })
}

fn read(file: &Path) -> (FileHeader, Vec<Record>, Option<u64>, Vec<Trouble>) {
    let mut reader = Reader::new(File::open(file).unwrap()).unwrap();
    let header = *reader.header();
    let (mut records, mut troubles) = (Vec::new(), Vec::new());
    for item in reader.by_ref() {
        match item {
            Ok(block) => records.extend(block.records),
            Err(trouble) => troubles.push(trouble),
        }
    }
    (header, records, reader.received(), troubles)
}

#[test]
fn every_datagram_has_its_record() {
    let folder = Folder::new("every");
    let before = realtime_ns();
    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let report = receive(&plan(Clocks::One), &folder.file(), |to| {
        let now = realtime_ns();
        for (socket, payload) in [
            (0, &header(9, 0, Clock::Realtime, now)[..]),
            (1, &[&header(9, 2, Clock::Realtime, now + 1)[..], &[0; 84]].concat()),
            (0, &header(9, 1, Clock::Realtime, now + 2)),
            (0, &header(9, 2, Clock::Realtime, now + 1)),
            (0, &header(9, 6, Clock::Realtime, now + 3)),
            (0, &header(8, 3, Clock::Tai, now + 4)),
            (0, b"not one of ours"),
            (0, b""),
        ] {
            sockets[socket].send_to(payload, to).unwrap();
        }
    });
    let (head, records, received, troubles) = read(&folder.file());
    assert!(troubles.is_empty(), "{troubles:?}");
    assert_eq!((head.transmission, head.sender_clock), (Some(9), Some(Clock::Realtime)));
    // The plan's word, so that whoever reads the file needs no other.
    assert!(head.one_clock);
    assert!(head.begun_ns.abs_diff(before) < 60_000_000_000);
    let tai = (Clock::Tai as u32) << flags::CLOCK_SHIFT;
    let kinds = records.iter().map(|one| (one.sequence, one.flow, one.payload_bytes, one.flags));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            (0, 0, 16, 0),
            (2, 1, 100, 0),
            (1, 0, 16, flags::REORDERED),
            (2, 0, 16, flags::DUPLICATE),
            (6, 0, 16, flags::BEYOND),
            (3, 0, 16, flags::OTHER_TRANSMISSION | tai),
            (0, 0, 15, flags::FOREIGN),
            (0, 0, 0, flags::FOREIGN),
        ]
    );
    let sent = records[0].sent_ns;
    assert!(sent.abs_diff(before) < 60_000_000_000);
    let steps = records[..6].iter().map(|one| one.sent_ns - sent).collect::<Vec<_>>();
    assert_eq!(steps, [0, 1, 2, 1, 3, 4]);
    assert!(records.iter().all(|one| one.received_ns.abs_diff(before) < 60_000_000_000));

    let kept = report.record.unwrap();
    assert_eq!((kept.kept, kept.lost, kept.error), (8, 0, None));
    assert_eq!((report.received, received), (8, Some(8)));
    assert_eq!(kept.bytes, fs::metadata(folder.file()).unwrap().len());
    // Of three new packets, and of what the records have of them.
    let new = records.iter().filter(|one| (one.flags & flags::NOT_COUNTED) == 0);
    let took = new.map(|one| one.received_ns - one.sent_ns).collect::<Vec<_>>();
    assert_eq!((report.inter_arrival.count + report.inter_arrival.negative, took.len()), (2, 3));
    assert_eq!(report.jitter.max_ns, took.windows(2).map(|two| two[0].abs_diff(two[1])).max());
    let delay = report.delay.unwrap();
    assert_eq!((delay.count, delay.min_ns), (3, took.iter().min().copied()));
    assert_eq!((report.delay_unknown, report.stamps.not_by_kernel), (None, 0));
}

#[test]
fn packets_of_pktgen_say_so() {
    let folder = Folder::new("pktgen");
    let mut plan = plan(Clocks::Apart);
    (plan.transmission, plan.expect) = (None, Some(2));
    let now = realtime_ns();
    let seconds = u32::try_from(now / 1_000_000_000).unwrap();
    let report = receive(&plan, &folder.file(), |to| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&pktgen(1, seconds, 7), to).unwrap();
        socket.send_to(&pktgen(2, seconds, 9), to).unwrap();
    });
    let (head, records, ..) = read(&folder.file());
    assert!(!head.one_clock);
    let first = u64::from(seconds) * 1_000_000_000;
    let found = records.iter().map(|one| (one.sequence, one.sent_ns - first, one.flags));
    assert_eq!(found.collect::<Vec<_>>(), [(0, 7_000, flags::PKTGEN), (1, 9_000, flags::PKTGEN)]);
    // Nobody said that it is this machine's clock.
    assert!(report.delay.is_none());
    assert!(report.delay_unknown.unwrap().contains("--same-clock"));
    assert_eq!(report.jitter.count, 1);
}

/// The receiver as a program, its port, and the folder of its file.
fn started(file: &Path, more: &[&str]) -> (Child, SocketAddr) {
    // A port that was free a moment ago.
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = Command::new(BINARY)
        .args(["receive", "--bind", &to.to_string(), "--record"])
        .arg(file)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, to)
}

fn ready(child: &mut Child) -> BufReader<impl Read + use<>> {
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    messages.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    messages
}

#[test]
fn a_full_disk_is_one_line_and_the_report_is_printed() {
    let (mut child, to) = started(Path::new("/dev/full"), &["--expect", "1", "--linger", "0"]);
    let mut messages = ready(&mut child);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&header(9, 0, Clock::Realtime, 0), to).unwrap();
    let mut said = String::new();
    messages.read_to_string(&mut said).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("/dev/full: No space left on device"), "{said}");
    assert!(said.contains("0 are in it and can be read, 1 are not"), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["distinct"], 1);
    assert_eq!((&report["record"]["kept"], &report["record"]["lost"]), (&0.into(), &1.into()));
}

#[test]
fn a_file_that_cannot_be_made_is_bad_usage() {
    let (child, _) = started(Path::new("/nowhere/packets.rec"), &[]);
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(
        said.starts_with("skblab-traffic: cannot write records to /nowhere/packets.rec: "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn what_was_written_before_a_kill_is_read() {
    let folder = Folder::new("killed");
    let (mut child, to) = started(&folder.file(), &[]);
    drop(ready(&mut child));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let mut sequence = 0;
    // Far less than a block: time alone makes it be written.
    let found = loop {
        assert!(begun.elapsed() < PATIENCE, "no block in {PATIENCE:?}");
        socket.send_to(&header(9, sequence, Clock::Realtime, 0), to).unwrap();
        sequence += 1;
        thread::sleep(Duration::from_millis(10));
        if fs::metadata(folder.file()).is_ok_and(|file| file.len() > 128) {
            let (_, records, ..) = read(&folder.file());
            if records.len() > 1 {
                break records;
            }
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, records, received, troubles) = read(&folder.file());
    assert!(records.starts_with(&found), "{} of {}", records.len(), found.len());
    assert_eq!(received, None);
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(records.iter().map(|one| one.sequence).eq(0..records.len() as u64));
}

/// The file that readers in other languages are tested with: `SKBLAB_GOLDEN=write` writes it anew.
#[test]
fn the_golden_file_is_what_is_written() {
    let folder = Folder::new("golden");
    let head = FileHeader {
        begun_ns: 1_800_000_000_000_000_000,
        transmission: Some(77),
        sender_clock: Some(Clock::Tai),
        ..FileHeader::default()
    };
    let mut recorder = Recorder::create(&folder.file()).unwrap();
    for number in 0..100_u64 {
        let small = u16::try_from(number).unwrap();
        let record = Record {
            sequence: number + (1 << 40),
            sent_ns: head.begun_ns + 37_000_000_000 + (number * 1000),
            received_ns: head.begun_ns + (number * 1001) + 500,
            flow: small % 7,
            payload_bytes: 18 + small,
            flags: if number % 10 == 9 { flags::DUPLICATE } else { 0 }
                | ((Clock::Tai as u32) << flags::CLOCK_SHIFT),
        };
        recorder.add(record, || head);
        if number == 59 {
            recorder.tick(u64::MAX, || head);
        }
    }
    assert_eq!(recorder.finish(|| head).kept, 100);
    let written = fs::read(folder.file()).unwrap();
    if std::env::var("SKBLAB_GOLDEN").is_ok_and(|what| what == "write") {
        fs::write(GOLDEN, &written).unwrap();
    }
    let stored = fs::read(GOLDEN).unwrap_or_default();
    assert!(
        written == stored,
        "{GOLDEN} is not what is written now; if that is as it should be, make it anew by \
         SKBLAB_GOLDEN=write cargo test -p skblab-traffic golden, and commit it"
    );
}
