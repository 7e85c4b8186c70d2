// SPDX-License-Identifier: GPL-2.0-or-later
//! Clocks compared over loopback, and what becomes of an echo that tells nothing or something else.
#![allow(clippy::unwrap_used, reason = "a test that fails should panic where it fails")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use skblab_traffic::clock::realtime_ns;
use skblab_traffic::clock_offset::{self, Plan};
use skblab_traffic::clock_probe::{self, Answer, Kept};
use skblab_traffic::echo::{self, Echo};
use skblab_traffic::report::ClockReport;

/// Far more than any test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn compared(to: SocketAddr) -> ClockReport {
    let plan = Plan {
        to,
        count: 50,
        gap: Duration::from_millis(1),
        wait: Duration::from_millis(500),
        transmission: 9,
    };
    clock_offset::run(&plan, &AtomicBool::new(false)).unwrap()
}

/// The report of probes to an echo of another kind: `change` makes of what came what goes back.
fn of_another(change: impl Fn(&mut [u8], u64) + Sync) -> ClockReport {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let at = socket.local_addr().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut payload = [0; 100];
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                if let Ok((size, from)) = socket.recv_from(&mut payload) {
                    change(&mut payload[..size], number);
                    number += 1;
                    socket.send_to(&payload[..size], from).unwrap();
                }
            }
        });
        let report = compared(at);
        done.store(true, Ordering::Relaxed);
        report
    })
}

/// As an echo answers whose clock is ahead.
fn answered(payload: &mut [u8], ahead_ns: i64) {
    assert!(clock_probe::asks(payload));
    let now_ns = realtime_ns().checked_add_signed(ahead_ns).unwrap();
    let kept = Kept { synchronized: true, max_error_us: 7, frequency_ppb: -3 };
    let answer = Answer { received_ns: now_ns, sent_ns: now_ns, by_kernel: true, kept };
    clock_probe::answer(payload, &answer);
}

#[test]
fn a_clock_is_not_ahead_of_itself() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let plan = echo::Plan { bind: bind.parse().unwrap(), limit: Some(PATIENCE), rcvbuf: None };
        let stop = AtomicBool::new(false);
        let echo = Echo::bind(&plan, &stop).unwrap();
        let at = echo.local_addr().unwrap();
        let (report, echoed) = thread::scope(|scope| {
            let echoing = scope.spawn(|| echo.run().unwrap());
            let report = compared(at);
            stop.store(true, Ordering::Relaxed);
            (report, echoing.join().unwrap())
        });
        assert_eq!((report.sent, report.unsent, echoed.received), (50, 0, 50), "{report:?}");
        assert!(report.answered >= 1 && report.not_by_kernel == 0, "{report:?}");
        let ahead = report.ahead.unwrap();
        assert!(ahead.ahead_ns.unsigned_abs() <= ahead.off_ns, "{report:?}");
        assert!(report.least.unwrap().ahead_ns <= 0 && report.most.unwrap().ahead_ns >= 0);
        assert!(report.round_trip_ns > Some(0));
        assert_eq!(report.far.unwrap().synchronized, report.near.synchronized);
        assert_eq!(report.unknown, None);
    }
}

#[test]
fn a_clock_that_is_ahead_is_found_so() {
    for ahead_ns in [3_600_000_000_000, -86_400_000_000_000] {
        let report = of_another(|payload, _| answered(payload, ahead_ns));
        let found = report.ahead.unwrap();
        assert!(found.ahead_ns.abs_diff(ahead_ns) <= found.off_ns, "{report:?}");
        let far = report.far.unwrap();
        assert_eq!((far.synchronized, far.max_error_us, far.frequency_ppb), (true, 7, -3));
    }
}

#[test]
fn a_clock_that_is_set_meanwhile_is_not_known() {
    let report =
        of_another(|payload, number| answered(payload, if number < 25 { 0 } else { -1 << 40 }));
    assert_eq!((report.ahead, report.unknown), (None, Some("a clock was set meanwhile")));
}

#[test]
fn an_echo_of_before_tells_nothing() {
    let report = of_another(|_, _| ());
    assert_eq!((report.answered, report.ahead), (0, None));
    assert!(report.unknown.unwrap().contains("tells no times"), "{report:?}");
}

#[test]
fn nobody_is_there() {
    // A port that nothing has, as another socket has just left it.
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = compared(free);
    assert_eq!((report.answered, report.ahead), (0, None));
    assert_eq!(report.unknown, Some("no probe came back"));
    assert!(report.errors.contains_key("ECONNREFUSED"), "{report:?}");
}
