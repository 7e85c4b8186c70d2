// SPDX-License-Identifier: GPL-2.0-or-later
//! The TCP server and its clients, over loopback, and each of them against what is not the other.
#![allow(clippy::unwrap_used, reason = "a test that fails should panic where it fails")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use skblab_traffic::pace::Rate;
use skblab_traffic::report::LateReport;
use skblab_traffic::tcp::exchange::{self, Close};
use skblab_traffic::tcp::message::{Head, Kind, LEN, STREAM_ANSWER, Total};
use skblab_traffic::tcp::report::{Ended, ErrorsReport, ExchangeReport, ServeReport, StreamReport};
use skblab_traffic::tcp::server::{self, Server};
use skblab_traffic::tcp::stream;

/// Far more than any test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOPBACK: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn serving(bind: &str) -> server::Plan {
    server::Plan {
        bind: bind.parse().unwrap(),
        limit: Some(PATIENCE),
        connections: 500,
        idle: PATIENCE,
    }
}

/// What `traffic` returns, and the report of the server that it was given.
fn with_server<T>(plan: &server::Plan, traffic: impl FnOnce(SocketAddr) -> T) -> (T, ServeReport) {
    let stop = AtomicBool::new(false);
    let server = Server::bind(plan, &stop).unwrap();
    let at = server.local_addr().unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run().unwrap());
        let told = traffic(at);
        stop.store(true, Ordering::Relaxed);
        (told, serving.join().unwrap())
    })
}

fn asking(to: SocketAddr, close: Option<Close>) -> exchange::Plan {
    exchange::Plan {
        to,
        from: None,
        close,
        flows: 7,
        count: Some(300),
        sizes: (100, 1000),
        rate: Rate::default(),
        intervals: None,
        seed: 1,
        limit: PATIENCE,
        timeout: PATIENCE,
        spin: Duration::ZERO,
        late: Duration::from_millis(1),
    }
}

fn sending(to: SocketAddr) -> stream::Plan {
    stream::Plan {
        to,
        from: None,
        flows: 3,
        count: Some(100),
        bytes: 50_000,
        rate: 0,
        reverse: false,
        limit: PATIENCE,
        timeout: PATIENCE,
        spin: Duration::ZERO,
        late: Duration::from_millis(1),
    }
}

fn ask(plan: exchange::Plan) -> ExchangeReport {
    exchange::run(plan, &AtomicBool::new(false)).unwrap()
}

fn send(plan: stream::Plan) -> StreamReport {
    stream::run(plan, &AtomicBool::new(false)).unwrap()
}

/// Nothing was begun before its time.
fn assert_not_early(seconds: f64, late: Option<&LateReport>, planned: f64) {
    let late = late.unwrap().max_ns as f64 / 1e9;
    assert!(seconds + late >= planned - 1e-6, "{seconds} s of {planned} s, {late} s late");
}

/// `accepted = closed + failed + open`.
fn assert_closed(report: &ServeReport) {
    let closed = report.closed.by_client + report.closed.by_server + report.closed.by_reset;
    assert_eq!(report.accepted, closed + report.failed + report.open, "{report:?}");
}

#[test]
fn each_request_has_a_connection_of_its_own() {
    for bind in LOOPBACK {
        for close in [Close::Server, Close::Client, Close::Reset] {
            let (report, served) = with_server(&serving(bind), |at| ask(asking(at, Some(close))));
            let (done, made) = (report.transactions, report.connections);
            assert_eq!((done.attempted, done.completed, done.failed), (300, 300, 0), "{report:?}");
            assert_eq!((made.attempted, made.completed, made.unfinished), (300, 300, 0));
            assert_eq!((report.connect.count, report.request.count), (300, 300));
            assert!(report.transaction.min_ns >= report.connect.min_ns);
            assert_eq!((report.rate_planned, report.since_due.is_none()), (None, true));
            assert_eq!((report.role, report.stopped_by), ("tcp_crr", Ended::Count));
            assert_eq!((served.accepted, served.answered, served.failed), (300, 300, 0));
            assert_eq!((served.received_bytes, served.sent_bytes), (30_000, 300_000));
            assert_closed(&served);
            if close == Close::Server {
                assert_eq!(served.closed.by_server, 300, "{served:?}");
            }
        }
    }
}

#[test]
fn many_requests_have_one_connection() {
    for bind in LOOPBACK {
        let (report, served) = with_server(&serving(bind), |at| ask(asking(at, None)));
        assert_eq!((report.transactions.completed, report.connections.completed), (300, 7));
        assert_eq!((report.connect.count, report.request.count), (7, 300));
        assert_eq!(report.errors, ErrorsReport::default());
        assert!(report.retransmitted.is_some());
        assert_eq!((report.role, report.close), ("tcp_rr", None));
        assert_eq!((served.accepted, served.answered, served.most_open), (7, 300, 7));
        assert_closed(&served);
    }
}

#[test]
fn with_a_rate_each_request_has_its_time() {
    for close in [None, Some(Close::Server)] {
        let (report, _) = with_server(&serving(LOOPBACK[0]), |at| {
            ask(exchange::Plan { rate: Rate::whole(2000), ..asking(at, close) })
        });
        assert!((report.rate_planned.unwrap() - 2000.0).abs() < 0.01, "{report:?}");
        assert!(report.rate_reached.unwrap() > 0.0, "{report:?}");
        // 299 times half a millisecond, and only the first may have been late.
        assert_not_early(report.seconds, report.late.as_ref(), 0.1495);
        let since_due = report.since_due.unwrap();
        assert_eq!((report.transactions.completed, since_due.count), (300, 300));
        // What is late has waited before it was begun.
        assert!(since_due.min_ns >= report.request.min_ns);
        assert!(since_due.max_ns >= report.transaction.max_ns);
    }
}

#[test]
fn messages_are_of_any_size() {
    for (request, answer) in [(16, 16), (16, 3_000_000), (3_000_000, 16), (300_001, 300_001)] {
        let (report, served) = with_server(&serving(LOOPBACK[0]), |at| {
            ask(exchange::Plan { sizes: (request, answer), count: Some(20), ..asking(at, None) })
        });
        assert_eq!(report.transactions.completed, 20, "{report:?}");
        let expected = (20 * u64::from(request), 20 * u64::from(answer));
        assert_eq!((served.received_bytes, served.sent_bytes), expected);
    }
}

#[test]
fn connections_come_from_all_addresses() {
    let (report, served) = with_server(&serving(LOOPBACK[0]), |at| {
        let from = Some("127.0.0.2-127.0.0.4".parse().unwrap());
        ask(exchange::Plan { from, ..asking(at, Some(Close::Client)) })
    });
    assert_eq!(report.from.as_deref(), Some("127.0.0.2-127.0.0.4"));
    assert_eq!((report.transactions.completed, served.accepted), (300, 300));
}

#[test]
fn a_stream_comes_whole() {
    for bind in LOOPBACK {
        let (report, served) = with_server(&serving(bind), |at| send(sending(at)));
        assert_eq!((report.writes, report.connections.completed), (Some(100), 3), "{report:?}");
        assert_eq!((report.sent_bytes, report.received_bytes), (5_000_000, 5_000_000));
        assert!(report.received_rate > Some(0.0) && report.rate_planned.is_none());
        for flow in &report.flows {
            assert_eq!(flow.received_bytes, Some(flow.sent_bytes));
            assert!(flow.rtt_ns > 0);
        }
        let heads = 3 * LEN as u64;
        assert_eq!((served.streams, served.received_bytes), (3, 5_000_000 + heads));
        assert_closed(&served);
    }
}

#[test]
fn a_stream_keeps_a_rate() {
    let plan =
        |at| stream::Plan { rate: 80_000_000, bytes: 1000, count: Some(1001), ..sending(at) };
    let (report, _) = with_server(&serving(LOOPBACK[0]), |at| send(plan(at)));
    // 1000 times 100 µs.
    assert_not_early(report.seconds, report.late.as_ref(), 0.1);
    assert!((report.rate_planned.unwrap() / 80e6 - 1.0).abs() < 1e-3);
    assert_eq!((report.received_bytes, report.stopped_by), (1_001_000, Ended::Count));
}

#[test]
fn a_stream_in_reverse_comes_whole() {
    for bind in LOOPBACK {
        let limit = Duration::from_millis(200);
        let (report, served) = with_server(&serving(bind), |at| {
            send(stream::Plan { reverse: true, count: None, limit, ..sending(at) })
        });
        assert_eq!((report.connections.completed, report.writes), (3, None), "{report:?}");
        assert!(report.received_bytes > 0 && report.received_rate > Some(0.0), "{report:?}");
        assert_eq!(report.received_bytes, report.sent_bytes);
        assert!(report.flows.iter().all(|flow| flow.rtt_ns > 0), "{report:?}");
        assert_eq!((report.stopped_by, served.streams), (Ended::Seconds, 3));
        let answers = 3 * STREAM_ANSWER as u64;
        assert_eq!(served.sent_bytes, report.received_bytes + answers);
        assert_closed(&served);
    }
}

#[test]
fn where_nothing_listens_it_ends_at_once() {
    // A port that was free a moment ago.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for close in [None, Some(Close::Server)] {
        let report = ask(exchange::Plan { count: None, ..asking(at, close) });
        assert_eq!(report.stopped_by, Ended::Unreachable);
        assert!(report.errors.connect["ECONNREFUSED"] > 0, "{report:?}");
        assert_eq!((report.connections.completed, report.connect.min_ns), (0, None));
    }
    let report = send(stream::Plan { count: None, ..sending(at) });
    assert_eq!((report.stopped_by, report.sent_bytes), (Ended::Unreachable, 0));
    assert!(report.errors.connect["ECONNREFUSED"] > 0, "{report:?}");
}

#[test]
fn what_does_not_answer_is_given_up() {
    // Connections are made by the kernel, and nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let timeout = Duration::from_millis(100);
    for close in [None, Some(Close::Server)] {
        let report = ask(exchange::Plan { timeout, flows: 2, count: Some(4), ..asking(at, close) });
        assert_eq!((report.transactions.failed, report.errors.request["ETIMEDOUT"]), (4, 4));
        assert_eq!((report.transactions.completed, report.stopped_by), (0, Ended::Count));
    }
    let report = send(stream::Plan { timeout, flows: 1, bytes: 10, ..sending(at) });
    assert_eq!((report.connections.failed, report.received_bytes), (1, 0));
    assert_eq!(report.errors.request["ETIMEDOUT"], 1);
}

/// Where something is done to each connection. It ends with the process, so no test waits for it.
fn strange(what: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(|socket| what(socket.unwrap())));
    at
}

#[test]
fn what_is_no_answer_is_told_by_its_kind() {
    let answer =
        |number| Head { kind: Kind::Answer, request: 100, answer: 1000, number }.bytes().to_vec();
    let cases = [
        ("garbled", b"HTTP/1.1 200 OK\r\n".to_vec()),
        ("garbled", [answer(2), vec![0; 984]].concat()),
        ("garbled", [answer(1), vec![0; 985]].concat()),
        ("closed", [answer(1), vec![0; 983]].concat()),
        ("closed", Vec::new()),
    ];
    for (expected, bytes) in cases {
        let at = strange(move |mut socket| {
            let _either = socket.read_exact(&mut [0; 100]);
            // The client resets it as soon as it sees what it is.
            let _either = socket.write_all(&bytes);
            let _either = socket.shutdown(Shutdown::Write);
            let _either = socket.read(&mut [0]);
        });
        let plan = asking(at, Some(Close::Server));
        let report = ask(exchange::Plan { flows: 1, count: Some(5), ..plan });
        assert_eq!(report.transactions.failed, 5, "{report:?}");
        assert_eq!(report.errors.request[expected], 5, "{report:?}");
    }
}

#[test]
fn a_kept_connection_that_ends_is_made_again() {
    let at = strange(|mut socket| {
        let mut request = [0; 100];
        for _ in 0..3 {
            if socket.read_exact(&mut request).is_err() {
                return;
            }
            let head = Head::read(request.first_chunk().unwrap()).unwrap();
            let whole = [head.answered().bytes().to_vec(), vec![0; 984]].concat();
            let _either = socket.write_all(&whole);
        }
    });
    let plan = asking(at, None);
    let report = ask(exchange::Plan { flows: 1, count: Some(12), rate: Rate::whole(50), ..plan });
    let lost = report.errors.idle.values().sum::<u64>() + report.transactions.failed;
    assert_eq!(report.transactions.attempted, 12);
    // An end may be seen before the next request, or by it.
    assert!(lost >= 3 && report.connections.attempted >= 3, "{report:?}");
}

#[test]
fn a_server_gives_up_what_it_does_not_know() {
    let head = |kind, request, answer| Head { kind, request, answer, number: 1 }.bytes().to_vec();
    let foreign = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        head(Kind::Answer, 16, 16),
        head(Kind::Keep, 15, 16),
        head(Kind::Keep, 16, u32::MAX),
        // The next request before the answer.
        [head(Kind::Keep, 16, 16), head(Kind::Keep, 16, 16)].concat(),
    ];
    let count = foreign.len() as u64;
    let ((), report) = with_server(&serving(LOOPBACK[0]), |at| {
        for bytes in foreign {
            let mut socket = TcpStream::connect(at).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.write_all(&bytes).unwrap();
            assert_eq!(
                socket.read(&mut [0; 100]).unwrap_err().kind().to_string(),
                "connection reset"
            );
        }
        // Half a request, and nothing at all.
        for bytes in [&head(Kind::Keep, 100, 16)[..], &[]] {
            let mut socket = TcpStream::connect(at).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.write_all(bytes).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            let _reset_or_end = socket.read(&mut [0; 100]);
        }
    });
    assert_eq!(report.errors["foreign"], count, "{report:?}");
    assert_eq!((report.errors["closed"], report.closed.by_client), (1, 1), "{report:?}");
    assert_eq!((report.failed, report.answered), (count + 1, 0));
    assert_closed(&report);
}

#[test]
fn a_server_gives_up_what_stays_still() {
    let plan = server::Plan { idle: Duration::from_millis(100), ..serving(LOOPBACK[0]) };
    let ((), report) = with_server(&plan, |at| {
        let mut socket = TcpStream::connect(at).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(b"sT").unwrap();
        assert!(socket.read(&mut [0]).is_err());
    });
    assert_eq!((report.errors["ETIMEDOUT"], report.failed, report.open), (1, 1, 0));
}

#[test]
fn a_full_server_lets_the_others_wait() {
    let plan = server::Plan { connections: 2, ..serving(LOOPBACK[0]) };
    let (report, served) = with_server(&plan, |at| ask(asking(at, Some(Close::Server))));
    assert_eq!(report.transactions.completed, 300, "{report:?}");
    assert_eq!((served.accepted, served.failed), (300, 0));
    assert!(served.most_open <= 2, "{served:?}");
}

#[test]
fn a_signal_gives_the_figures_so_far() {
    let plan = serving(LOOPBACK[0]);
    let (report, served) = with_server(&plan, |at| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let plan = exchange::Plan { count: None, ..asking(at, Some(Close::Reset)) };
            let asking = scope.spawn(|| exchange::run(plan, &stop).unwrap());
            thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
            asking.join().unwrap()
        })
    });
    assert_eq!(report.stopped_by, Ended::Signal);
    let done = report.transactions;
    assert_eq!(done.attempted, done.completed + done.unfinished, "{report:?}");
    assert_closed(&served);
}

#[test]
fn a_stream_is_told_in_the_answer() {
    let ((), report) = with_server(&serving(LOOPBACK[0]), |at| {
        let mut socket = TcpStream::connect(at).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = Head { kind: Kind::Stream, request: 16, answer: 16, number: 5 };
        socket.write_all(&head.bytes()).unwrap();
        socket.write_all(&[7; 1234]).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.len(), STREAM_ANSWER);
        assert_eq!(Head::read(answer.first_chunk().unwrap()), Some(head.answered()));
        assert_eq!(Total::read(answer[LEN..].first_chunk().unwrap()).bytes, 1234);
    });
    assert_eq!((report.streams, report.closed.by_client), (1, 1));
}
