// SPDX-License-Identifier: GPL-2.0-or-later
//! The echo and round trips, over loopback.
#![allow(clippy::unwrap_used, reason = "a test that fails should panic where it fails")]

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use skblab_traffic::echo::{self, Echo};
use skblab_traffic::header::{Clock, Header, LEN};
use skblab_traffic::record::{Reader, flags};
use skblab_traffic::recorder::Recorder;
use skblab_traffic::report::{EchoReport, RoundTripReport, Stopped};
use skblab_traffic::round_trip;

/// Far more than any test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `traffic` returns, and the report of the echo that it was given.
fn with_echo<T>(bind: &str, traffic: impl FnOnce(SocketAddr) -> T) -> (T, EchoReport) {
    // As large as the other end's: on a busy machine all packets may wait for the echo.
    let rcvbuf = Some(1 << 20);
    let plan = echo::Plan { bind: bind.parse().unwrap(), limit: Some(PATIENCE), rcvbuf };
    let stop = AtomicBool::new(false);
    let echo = Echo::bind(&plan, &stop).unwrap();
    let at = echo.local_addr().unwrap();
    thread::scope(|scope| {
        let echoing = scope.spawn(|| echo.run().unwrap());
        let told = traffic(at);
        stop.store(true, Ordering::Relaxed);
        (told, echoing.join().unwrap())
    })
}

fn plan(to: SocketAddr) -> round_trip::Plan {
    round_trip::Plan {
        to,
        count: Some(500),
        bytes: 100,
        rate: 5000,
        seed: 1,
        limit: PATIENCE,
        wait: PATIENCE,
        spin: Duration::ZERO,
        late: Duration::from_millis(1),
        rcvbuf: Some(1 << 20),
        transmission: 9,
    }
}

fn trips(plan: &round_trip::Plan, recorder: Option<Recorder>) -> RoundTripReport {
    round_trip::run(plan, None, recorder, &AtomicBool::new(false)).unwrap()
}

fn header(sequence: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    Header { transmission: 9, sequence, pktgen: false, clock: Clock::Realtime, stamp: 1 }
        .write(&mut bytes);
    bytes
}

#[test]
fn every_packet_comes_back_once() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let (report, echoed) = with_echo(bind, |at| trips(&plan(at), None));
        assert_eq!(
            (report.packets.sent, report.packets.unsent, report.distinct),
            (500, 0, 500),
            "{report:?}"
        );
        assert_eq!((report.lost, report.duplicates, report.reordered), (0, 0, 0));
        assert_eq!((report.received, report.foreign, report.round_trip.negative), (500, 0, 0));
        assert_eq!((report.round_trip.count, report.inter_arrival.count), (500, 499));
        assert!(report.round_trip.min_ns > Some(0));
        assert_eq!(report.packets.stopped_by, Stopped::Count);
        assert_eq!((echoed.received, echoed.echoed, echoed.bytes), (500, 500, 50_000));
        assert_eq!(echoed.stopped_by, Stopped::Signal);
    }
}

#[test]
fn each_has_its_record() {
    let file = std::env::temp_dir().join(format!("skblab-rtt-{}.rec", std::process::id()));
    let (report, _) =
        with_echo("127.0.0.1:0", |at| trips(&plan(at), Some(Recorder::create(&file).unwrap())));
    let mut reader = Reader::new(File::open(&file).unwrap()).unwrap();
    let head = *reader.header();
    let records = reader.by_ref().flat_map(|block| block.unwrap().records).collect::<Vec<_>>();
    fs::remove_file(&file).unwrap();
    assert!(head.one_clock && head.round_trip);
    assert_eq!((head.transmission, reader.received()), (Some(9), Some(500)));
    assert!(records.iter().map(|one| one.sequence).eq(0..500));
    assert!(records.iter().all(|one| one.flags & flags::NOT_COUNTED == 0));
    let longest = records.iter().map(|one| one.received_ns - one.sent_ns).max();
    assert_eq!(report.round_trip.max_ns, longest);
    assert_eq!(report.record.unwrap().kept, 500);
}

#[test]
fn a_payload_comes_back_whole_from_where_it_was_sent_to() {
    let ((), report) = with_echo("0.0.0.0:0", |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // Of the addresses of loopback one that no route would choose; a connected socket takes
        // packets from there alone.
        socket.connect(("127.0.0.5", at.port())).unwrap();
        for bytes in [LEN, 1000, 40_000] {
            let mut payload = header(bytes as u64).to_vec();
            payload.extend((LEN..bytes).map(|at| at.to_le_bytes()[0]));
            socket.send(&payload).unwrap();
            let mut back = vec![0; 1 << 16];
            let size = socket.recv(&mut back).unwrap();
            assert!(back[..size] == payload, "{bytes}");
        }
    });
    assert_eq!((report.received, report.echoed, report.bytes), (3, 3, 41_016));
}

#[test]
fn what_could_go_round_for_ever_is_refused() {
    let ((), report) = with_echo("127.0.0.1:0", |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"of somebody else", at).unwrap();
        socket.send_to(b"", at).unwrap();
        // Another echo has the same port, on another address.
        let other = UdpSocket::bind(("127.0.0.7", at.port())).unwrap();
        other.send_to(&header(1), at).unwrap();
        socket.send_to(&header(2), at).unwrap();
        let mut back = [0; 100];
        let size = socket.recv(&mut back).unwrap();
        assert_eq!(back[..size], header(2));
    });
    assert_eq!((report.refused.foreign, report.refused.own_port), (2, 1));
    assert_eq!((report.received, report.echoed, report.refused.by_kernel), (4, 1, 0));
}

#[test]
fn where_nothing_listens_the_kernel_says_so() {
    // A port that was free a moment ago.
    let at = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let few = round_trip::Plan { count: Some(20), wait: Duration::from_millis(200), ..plan(at) };
    let report = trips(&few, None);
    assert_eq!((report.distinct, report.packets.attempted), (0, 20));
    assert_eq!(
        (report.lost, report.packets.sent + report.packets.unsent),
        (report.packets.sent, 20)
    );
    assert!(report.packets.errors["ECONNREFUSED"] > 0, "{report:?}");
    assert_eq!((report.round_trip.count, report.round_trip.min_ns), (0, None));
}

#[test]
fn what_comes_of_others_or_twice_is_counted() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let few = round_trip::Plan {
        count: Some(4),
        rate: 100,
        // One is lost, so all of it is waited for.
        wait: Duration::from_secs(2),
        ..plan(far.local_addr().unwrap())
    };
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            let mut payload = [0; 200];
            let mut kept = Vec::new();
            for _ in 0..4 {
                let (size, from) = far.recv_from(&mut payload).unwrap();
                kept.push((payload[..size].to_vec(), from));
            }
            // The first is lost, the last one twice and out of order.
            for at in [3, 2, 1, 3] {
                far.send_to(&kept[at].0, kept[at].1).unwrap();
            }
            far.send_to(b"other", kept[0].1).unwrap();
            far.send_to(&header(77), kept[0].1).unwrap();
        });
        trips(&few, None)
    });
    assert_eq!((report.distinct, report.duplicates, report.reordered), (3, 1, 2), "{report:?}");
    assert_eq!((report.lost, report.foreign, report.beyond, report.received), (1, 1, 1, 6));
    assert_eq!(report.round_trip.count, 3);
}
