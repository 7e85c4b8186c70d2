# SPDX-License-Identifier: GPL-2.0-or-later
"""A console's telling lines are found, the first fatal one is the cause."""

from pathlib import Path

import pytest

from skblab.lab.guest.console import OFTEN_OTHERS, Console, Finding, Kind, classify

STAMP = "[   12.345678] "


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Kernel panic - not syncing: sysrq triggered crash", Kind.PANIC),
        ("BUG: kernel NULL pointer dereference, address: 0000000000000008", Kind.OOPS),
        ("Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI", Kind.OOPS),
        (
            "Oops: general protection fault, probably for non-canonical address 0xdead: 0000",
            Kind.OOPS,
        ),
        ("kernel BUG at net/core/skbuff.c:123!", Kind.OOPS),
        ("BUG: KASAN: slab-use-after-free in skb_clone+0x1/0x2", Kind.SANITIZER),
        ("WARNING: possible circular locking dependency detected", Kind.SANITIZER),
        ("WARNING: suspicious RCU usage", Kind.SANITIZER),
        ("WARNING: inconsistent lock state", Kind.SANITIZER),
        ("WARNING: bad unlock balance detected!", Kind.SANITIZER),
        ("ODEBUG: free active (active state 0) object: 0 object type: timer_list", Kind.SANITIZER),
        (
            "unregister_netdevice: waiting for veth0 to become free. Usage count = 2",
            Kind.WARNING,
        ),
        ("BUG: sleeping function called from invalid context at x.c:1", Kind.SANITIZER),
        ("watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [sh:1]", Kind.LOCKUP),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", Kind.STALL),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", Kind.STALL),
        ("INFO: task sh:1 blocked for more than 120 seconds.", Kind.HUNG),
        ("WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 f+0x1/0x2", Kind.WARNING),
        ("WARNING: net/core/dev.c:1 at f+0x1/0x2, CPU#0: sh/1", Kind.WARNING),
        ("WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected", Kind.SANITIZER),
        ("WARNING: possible irq lock inversion dependency detected", Kind.SANITIZER),
        ("WARNING: possible recursive locking detected", Kind.SANITIZER),
        ("WARNING: sh/1 still has locks held!", Kind.SANITIZER),
        ("WARNING: bad contention detected!", Kind.SANITIZER),
        ("WARNING: lock held when returning to user space!", Kind.SANITIZER),
        ("WARNING: Nested lock was not taken", Kind.SANITIZER),
        ("WARNING: held lock freed!", Kind.SANITIZER),
        ("BUG: Invalid wait context ]", Kind.SANITIZER),
        ("INFO: trying to register non-static key.", Kind.SANITIZER),
        ("BUG: KCSAN: data-race in f / g", Kind.RACE),
        ("BUG: KMSAN: kernel-infoleak in irqentry_exit+0x30a/0x8a0", Kind.UNINITIALIZED),
        ("UBSAN: array-index-out-of-bounds in x.c:1:2", Kind.SANITIZER),
        ("BUG skbuff_head_cache (Not tainted): Poison overwritten", Kind.SANITIZER),
        ("BUG kmalloc-64 (Tainted: G    B      ): Redzone overwritten", Kind.SANITIZER),
        ("BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck", Kind.LOCKUP),
        ("BUG: TASK stack guard page was hit at 1 (stack is 2..3)", Kind.OOPS),
        ("general protection fault: 0000 [#1] SMP", Kind.OOPS),
        ("Watchdog detected hard LOCKUP on cpu 0", Kind.LOCKUP),
        ("rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {", Kind.STALL),
        ("leaked reference.", Kind.WARNING),
        ("NETDEV WATCHDOG: CPU: 0: transmit queue 0 timed out 5000 ms", Kind.WARNING),
        ("page allocation failure: order:0, mode:0x820(GFP_ATOMIC)", Kind.WARNING),
    ],
)
def test_kernel_trouble_is_named(line: str, kind: Kind) -> None:
    assert classify(STAMP + line) == Finding(kind, line)


def test_caller_info_in_the_stamp() -> None:
    found = classify("[    1.000000][    T1] Kernel panic - not syncing: No working init found.")
    assert found is not None
    assert found.kind is Kind.PANIC


@pytest.mark.parametrize(
    "line",
    [
        "",
        STAMP + "Run /skblab/bootstrap as init process",
        STAMP + "kernel: Command line: panic=-1 oops=panic",
        STAMP + "rcu: Preemptible hierarchical RCU implementation.",
        STAMP + "traps: sh[1] general protection fault ip:1 sp:2 error:0 in sh[3,4+5]",
        STAMP + "pktgen: WARNING: Requested queue_map_min (zero-based) (1) exceeds valid range",
        STAMP + "kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        # What a program of the guest prints is no kernel message: it has no time stamp.
        "Kernel panic - not syncing: said by a test",
    ],
)
def test_ordinary_lines_say_nothing(line: str) -> None:
    assert classify(line) is None


def test_cause_is_the_first_fatal_line_and_lines_may_come_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    console = Console(log)
    assert console.cause() is None
    log.write_bytes(b"[    1.0] WARNING: CPU: 0 PID: 1 at x.c:1 f+0x1\n[    2.0] BUG: unable to ha")
    assert console.cause() is None
    with log.open("ab") as more:
        more.write(b"ndle page fault\n[    2.1] Kernel panic - not syncing: Fatal exception\n")
    cause = console.cause()
    assert cause == Finding(Kind.OOPS, "BUG: unable to handle page fault")
    assert [w.text for w in console.warnings()] == ["WARNING: CPU: 0 PID: 1 at x.c:1 f+0x1"]


def test_what_a_kernel_often_has_of_its_own_ends_no_guest(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text(
        "[    1.0] BUG: KMSAN: uninit-value in f+0x1/0x2\n[    2.0] BUG: KCSAN: data-race\n"
    )
    console = Console(log)
    assert console.cause() is None
    assert {finding.kind for finding in console.findings} == OFTEN_OTHERS
