// SPDX-License-Identifier: GPL-2.0-or-later
//! Sender and receiver together over loopback, and the receiver against faulty traffic.
#![allow(clippy::unwrap_used, reason = "a test that fails should panic where it fails")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use skblab_traffic::generator::{Named, Unit};
use skblab_traffic::header::{Clock, Header, LEN};
use skblab_traffic::pace::Rate;
use skblab_traffic::receive::{self, Receiver};
use skblab_traffic::report::{ReceiveReport, SendReport, Stopped};
use skblab_traffic::send;
use skblab_traffic::timing::Clocks;

const LOOPBACK: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn receive_plan(bind: &str, expect: Option<u64>) -> receive::Plan {
    receive::Plan {
        bind: bind.parse().unwrap(),
        device: None,
        xdp: false,
        expect,
        transmission: None,
        // Longer than a busy machine keeps the sender's thread from running.
        idle: Duration::from_secs(2),
        linger: Duration::from_millis(50),
        limit: Duration::from_secs(20),
        // For all packets of any test: they may wait for a receiver that does not run.
        rcvbuf: Some(64 << 20),
        clocks: Clocks::One,
        interval_ns: Some(1e6),
    }
}

fn sizes(text: &str) -> Named {
    Named::parse(text, Unit::Bytes).unwrap()
}

fn send_plan(to: SocketAddr) -> send::Plan {
    send::Plan {
        to,
        device: None,
        count: Some(2000),
        sizes: sizes("100"),
        more_bytes: 0,
        rate: Rate::whole(20_000),
        step: None,
        intervals: None,
        seed: 1,
        batch: 1,
        segment: false,
        flows: 3,
        source_port: 0,
        limit: Duration::from_secs(20),
        spin: Duration::ZERO,
        late: Duration::from_micros(100),
        txtime: None,
        transmission: 77,
    }
}

/// Run `traffic` against a receiver; returns what it returned and the receiver's report.
fn against<T>(plan: &receive::Plan, traffic: impl FnOnce(SocketAddr) -> T) -> (T, ReceiveReport) {
    let stop = AtomicBool::new(false);
    let receiver = Receiver::bind(plan, &stop).unwrap();
    let to = receiver.local_addr().unwrap();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run().unwrap());
        let result = traffic(to);
        (result, receiving.join().unwrap())
    })
}

fn run_sender(plan: send::Plan) -> SendReport {
    send::run(plan, &AtomicBool::new(false)).unwrap()
}

fn assert_closed(report: &ReceiveReport) {
    assert_eq!(
        report.received,
        report.distinct + report.duplicates + report.too_old + report.beyond + report.foreign.total,
        "{report:?}"
    );
}

#[test]
fn every_packet_arrives_once_over_both_families() {
    for bind in LOOPBACK {
        let (sent, got) = against(&receive_plan(bind, Some(2000)), |to| run_sender(send_plan(to)));
        assert_eq!(
            (sent.packets.sent, sent.packets.unsent, sent.packets.stopped_by),
            (2000, 0, Stopped::Count)
        );
        assert_eq!((got.distinct, got.lost, got.duplicates), (2000, 0, 0), "{got:?}");
        assert_eq!((got.transmission, got.flows, got.bytes), (Some(77), 3, 200_000));
        assert_eq!((got.stopped_by, got.socket.drops), (Stopped::Count, 0));
        assert!(sent.packets.pace.seconds > 0.099, "20 kpps needs 100 ms: {sent:?}");
        assert_closed(&got);
    }
}

#[test]
fn faulty_traffic_is_told_apart() {
    let mut plan = receive_plan("127.0.0.1:0", Some(6));
    plan.transmission = Some(9);
    let ((), got) = against(&plan, |to| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let packet = |transmission, sequence| {
            let mut bytes = [0; LEN];
            Header { transmission, sequence, pktgen: false, clock: Clock::Realtime, stamp: 0 }
                .write(&mut bytes);
            bytes
        };
        for bytes in [
            &packet(9, 0)[..],
            &packet(9, 2),
            &packet(9, 1),
            &packet(9, 2),
            &packet(9, 6),
            &packet(8, 3),
            &packet(9, 4)[..15],
            b"not one of ours",
            &[0x5b, 9],
            b"",
        ] {
            socket.send_to(bytes, to).unwrap();
        }
    });
    assert_eq!((got.received, got.distinct, got.duplicates), (10, 3, 1), "{got:?}");
    assert_eq!((got.reordered, got.beyond, got.lost), (1, 1, 3));
    let foreign = got.foreign;
    assert_eq!((foreign.total, foreign.other_transmission, foreign.short), (5, 1, 2));
    assert_eq!((foreign.magic, foreign.version), (1, 1));
    assert_eq!(got.stopped_by, Stopped::Idle);
    assert_closed(&got);
}

#[test]
fn a_full_buffer_is_counted() {
    let mut plan = receive_plan("127.0.0.1:0", Some(2000));
    plan.rcvbuf = Some(4096);
    let stop = AtomicBool::new(false);
    let receiver = Receiver::bind(&plan, &stop).unwrap();
    let mut burst = send_plan(receiver.local_addr().unwrap());
    burst.rate = Rate::default();
    // Nobody reads yet, so the buffer must overflow.
    assert_eq!(run_sender(burst).packets.sent, 2000);
    let got = receiver.run().unwrap();
    assert!(got.distinct > 0 && got.distinct < 100, "{got:?}");
    assert_eq!(u64::from(got.socket.drops), got.lost, "{got:?}");
}

#[test]
fn time_and_signal_end_the_sender() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = send_plan(sink.local_addr().unwrap());
    plan.count = None;
    plan.rate = Rate::whole(1000);
    plan.limit = Duration::from_millis(100);
    let begin = Instant::now();
    let report = run_sender(plan);
    // The last packet is due 1 ms before the end: on a busy machine some find that time is up.
    assert!((1..=100).contains(&report.packets.attempted), "{report:?}");
    assert_eq!(report.packets.stopped_by, Stopped::Seconds, "{report:?}");
    assert!(begin.elapsed() >= Duration::from_millis(99), "{report:?}");

    let mut plan = send_plan(sink.local_addr().unwrap());
    plan.count = None;
    plan.rate = Rate::whole(1000);
    plan.limit = Duration::from_secs(600);
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    thread::scope(|scope| {
        let sending = scope.spawn(|| send::run(plan, &stop).unwrap());
        thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sending.join().unwrap().packets.stopped_by, Stopped::Signal);
    });
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_silent_port_ends_the_receiver_in_time() {
    let mut plan = receive_plan("127.0.0.1:0", Some(1));
    plan.limit = Duration::from_millis(200);
    let ((), got) = against(&plan, |_| ());
    assert_eq!((got.stopped_by, got.received, got.lost), (Stopped::Seconds, 0, 1));
    assert_eq!((got.transmission, got.rate), (None, None));
}

#[test]
fn batches_carry_every_packet_of_every_flow() {
    let (sent, got) = against(&receive_plan("127.0.0.1:0", Some(5000)), |to| {
        let mut plan = send_plan(to);
        plan.count = Some(5000);
        plan.rate = Rate::default();
        plan.batch = 32;
        plan.sizes = sizes("uniform:16,1400");
        run_sender(plan)
    });
    assert_eq!((sent.packets.sent, sent.packets.unsent, sent.clipped), (5000, 0, 0));
    assert_eq!((got.distinct, got.duplicates, got.flows), (5000, 0, 3), "{got:?}");
    // They leave in their order, whichever flow they are of.
    assert_eq!((got.reordered, got.reordered_in_flow), (0, 0));
    // Sizes are of all between both, and what was sent is what came.
    assert!(sent.payload_bytes.min < 30 && sent.payload_bytes.max > 1380, "{sent:?}");
    assert_eq!(sent.payload_bytes.sum, got.bytes);
    assert_closed(&got);
}

#[test]
fn what_the_kernel_cuts_is_every_packet_of_every_flow() {
    for (size, batch) in [("16", 200), ("1400", 100)] {
        let (sent, got) = against(&receive_plan("[::1]:0", Some(3001)), |to| {
            let mut plan = send_plan(to);
            plan.count = Some(3001);
            plan.rate = Rate::default();
            plan.batch = batch;
            plan.segment = true;
            plan.sizes = sizes(size);
            run_sender(plan)
        });
        assert_eq!((sent.packets.sent, sent.packets.unsent), (3001, 0), "{sent:?}");
        assert_eq!((got.distinct, got.duplicates, got.flows), (3001, 0, 3), "{got:?}");
        assert_eq!((got.reordered_in_flow, got.foreign.total), (0, 0));
        assert_eq!(got.bytes, sent.payload_bytes.sum);
        assert_closed(&got);
    }
}

#[test]
fn a_seed_says_what_is_sent() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sent = |seed, intervals: &str| {
        let mut plan = send_plan(sink.local_addr().unwrap());
        plan.count = Some(100);
        plan.seed = seed;
        plan.sizes = sizes("gaussian:200,500");
        plan.intervals = Some(Named::parse(intervals, Unit::Time).unwrap());
        let report = run_sender(plan);
        // Half of such sizes are too small for the header.
        assert!(report.clipped > 20 && report.payload_bytes.min == 16, "{report:?}");
        assert!(report.packets.pace.rate_planned.is_some() && report.late.is_some());
        (report.payload_bytes.sum, report.clipped)
    };
    assert_eq!(sent(1, "poisson:10us"), sent(1, "constant:20us"));
    assert_ne!(sent(1, "poisson:10us"), sent(2, "poisson:10us"));
}

#[test]
fn refused_packets_are_reported() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = closed.local_addr().unwrap();
    drop(closed);
    let report = run_sender(send_plan(to));
    assert_eq!(report.packets.sent + report.packets.unsent, 2000);
    assert!(report.packets.errors.contains_key("ECONNREFUSED"), "{report:?}");

    // The largest that IPv6 carries is more than loopback does.
    let closed = UdpSocket::bind("[::1]:0").unwrap();
    let mut huge = send_plan(closed.local_addr().unwrap());
    huge.sizes = sizes("65527");
    huge.count = Some(3);
    let report = run_sender(huge);
    assert_eq!((report.packets.sent, report.packets.unsent), (0, 3));
    assert_eq!(report.packets.errors.get("EMSGSIZE"), Some(&3));
}

#[test]
fn a_destination_has_an_address_and_a_port() {
    for (command, to, why) in [
        ("send", "127.0.0.1:0", "nothing listens on port 0"),
        ("rtt", "[::1]:0", "nothing listens on port 0"),
        ("send", "127.0.0.1", "expected an address and a port"),
    ] {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_skblab-traffic"))
            .args([command, "--to", to, "--count", "1"])
            .output()
            .unwrap();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0));
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}
