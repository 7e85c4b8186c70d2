# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading a kernel's console: what went wrong, in one line.

The patterns are the kernel's own words (kernel/panic.c, lib/bug.c, kernel/rcu/tree_stall.h,
kernel/watchdog.c, kernel/hung_task.c, kernel/workqueue.c, kernel/locking/lockdep.c,
mm/kasan/report.c, mm/slub.c, mm/page_alloc.c, net/core/dev.c, net/sched/sch_generic.c,
lib/ref_tracker.c). Suspicions of kmemleak are none of them: many are withdrawn by its next scan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Kind(Enum):
    """What a console line tells of. The order is that of telling: a cause before its effect."""

    OOPS = "oops"
    SANITIZER = "sanitizer report"
    LOCKUP = "lockup"
    STALL = "RCU stall"
    HUNG = "hung task"
    PANIC = "panic"
    INIT = "init failure"
    WARNING = "warning"
    RACE = "data race"
    UNINITIALIZED = "use of memory that nobody has written"


_STAMP = r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[[^]]*\])? "
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (Kind.RACE, r"BUG: KCSAN"),
    (Kind.UNINITIALIZED, r"BUG: KMSAN"),
    (Kind.SANITIZER, r"BUG: (?:KASAN|KFENCE)|UBSAN: "),
    (Kind.SANITIZER, r"WARNING: possible (?:circular|recursive|irq lock|deadlock)"),
    (Kind.SANITIZER, r"WARNING: \S+-safe -> \S+-unsafe lock order|WARNING: chain_key collision"),
    (Kind.SANITIZER, r"WARNING: (?:suspicious RCU|inconsistent lock|held lock freed|bad unlock)"),
    (Kind.SANITIZER, r"WARNING: (?:bad contention|lock held when|Nested lock was)"),
    (Kind.SANITIZER, r"WARNING: .* still has locks held"),
    (Kind.SANITIZER, r"ODEBUG: "),
    (Kind.SANITIZER, r"BUG: (?:sleeping function|scheduling while|Invalid wait)|INFO: trying to"),
    # Of a slab: "BUG kmalloc-64 (Not tainted): Poison overwritten".
    (Kind.SANITIZER, r"BUG \S+ \((?:Not t|T)ainted.*\): "),
    (Kind.LOCKUP, r"(?:watchdog: )?BUG: (?:soft|hard) lockup|Watchdog detected hard LOCKUP"),
    (Kind.LOCKUP, r"BUG: workqueue lockup"),
    # A program's own fault has the same words, and neither colon nor comma behind them.
    (Kind.OOPS, r"BUG: |Oops: |kernel BUG at |general protection fault[,:]|Internal error: "),
    (Kind.STALL, r"rcu: INFO: .*(?:stall|self-detected)|INFO: rcu_\w+ .*stall"),
    (Kind.HUNG, r"INFO: task .* blocked for more than"),
    (Kind.PANIC, r"Kernel panic - not syncing"),
    (Kind.WARNING, r"WARNING: CPU: |WARNING: .* at "),
    # A slow guest may say it without a fault; one that lost a reference does.
    (Kind.WARNING, r"unregister_netdevice: waiting for|leaked reference"),
    (Kind.WARNING, r"NETDEV WATCHDOG: |page allocation failure: "),
)
_COMPILED = tuple((kind, re.compile(_STAMP + f".*?((?:{text}).*)")) for kind, text in _PATTERNS)
_INIT_FAILED = re.compile(r"^(skblab-init: failed.*)")
# What init.sh says of its sshd, also when all is well.
_SSHD_ENDED = re.compile(_STAMP + r"skblab-init: (sshd ended .*)")
_SSHD_AGAIN = re.compile(_STAMP + r"skblab-init: sshd starts again")

# What KCSAN and KMSAN report. A kernel has such faults of its own that do no harm.
OFTEN_OTHERS = frozenset({Kind.RACE, Kind.UNINITIALIZED})
# These make whatever is being measured worthless. A warning alone does not.
FATAL = frozenset(set(Kind) - {Kind.WARNING} - OFTEN_OTHERS)


@dataclass(frozen=True)
class Finding:
    """One telling line of a console."""

    kind: Kind
    text: str


def classify(line: str) -> Finding | None:
    """Return what a console line tells, or None for an ordinary one."""
    line = line.rstrip("\r\n")
    if found := _INIT_FAILED.match(line):
        return Finding(Kind.INIT, found[1])
    for kind, pattern in _COMPILED:
        if found := pattern.match(line):
            return Finding(kind, found[1].strip())
    return None


@dataclass
class Console:
    """Follows a console log as it grows; keeps the findings in order, and what became of sshd."""

    path: Path
    findings: list[Finding] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    again: int = 0
    _offset: int = 0
    _rest: bytes = b""

    def poll(self) -> None:
        """Read what the log gained since the last call."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._offset)
                new = log.read()
        except FileNotFoundError:
            return
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r")
            if finding := classify(text):
                self.findings.append(finding)
            elif found := _SSHD_ENDED.match(text):
                self.ended.append(found[1])
            elif _SSHD_AGAIN.match(text):
                self.again += 1

    def cause(self) -> Finding | None:
        """Return the first fatal finding: what follows it is its consequence."""
        self.poll()
        return next((finding for finding in self.findings if finding.kind in FATAL), None)

    def warnings(self) -> list[Finding]:
        """Return the kernel warnings seen so far."""
        self.poll()
        return [finding for finding in self.findings if finding.kind is Kind.WARNING]

    def empty(self) -> bool:
        """Tell whether the kernel has said nothing at all."""
        self.poll()
        return self._offset == 0
