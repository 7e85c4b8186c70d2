# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counted of a trial, and by setting: which CPUs had the work.

Softirqs of NET_RX and the packets that softnet processed (__netif_receive_skb_core) show where
packets came into the stack; the CPU time of threads shows what NAPI threads took. Interrupts are of
the devices under test only: all others are in the run folder's table, and in no summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skblab_analysis.load import Run, once
from skblab_analysis.work.rows import TIMED, CounterRow, Kind

ByCpu = Mapping[int, int]

# What names of counters of lost packets have in them, and of errors: drivers choose their own.
LOST = re.compile(
    "drop|discard|fail|missed|overflow|overrun|fifo|no_?route|noports|err(or)?s?(?![a-z])", re.I
)
LOSING: tuple[Kind, ...] = ("device", "driver", "protocol", "qdisc")
NAPI_THREAD = "napi/"
SOFTIRQ_THREAD = "ksoftirqd/"


@dataclass(frozen=True)
class Work:
    """What was counted with one setting, in all its good trials together.

    By CPU: interrupts of devices, softirqs of NET_RX, packets that softnet processed. `squeezed`:
    polls that ended for want of budget or time; `dropped`: by the backlog. Threads' time is in ns.
    `lost`: drops and errors by the counters' names, the most first.
    """

    setting: str
    trials: int
    interrupts: ByCpu
    net_rx: ByCpu
    processed: ByCpu
    squeezed: int
    dropped: int
    napi_ns: int
    ksoftirqd_ns: int
    lost: Mapping[str, int]


@once
def of(run: Run) -> list[Work]:
    """Return what the kernel counted in a run, by setting; none if nothing was."""
    settings = {
        row.trial: row.setting for row in run.trials if row.state == "good" and row.part == "whole"
    }
    ordered = run.setting_order(dict.fromkeys(settings.values()))
    return works(
        run.rows(CounterRow),
        dict(sorted(settings.items(), key=lambda item: ordered.index(item[1]))),
    )


def works(rows: Iterable[CounterRow], settings: Mapping[int, str]) -> list[Work]:
    """Sum up rows of `counters` by setting; `settings` has that of each trial that counts."""
    by_setting: dict[str, list[CounterRow]] = {
        name: [] for name in dict.fromkeys(settings.values())
    }
    for row in rows:
        if row.trial in settings:
            by_setting[settings[row.trial]].append(row)
    return [
        _work(name, sum(of_trial == name for of_trial in settings.values()), counted)
        for name, counted in by_setting.items()
        if counted
    ]


def _of_device(interrupt: str) -> bool:
    """Whether it is of a device under test: those have the device's name first, see counters.py."""
    return " " in interrupt and not interrupt[0].isdigit()


def _work(setting: str, trials: int, rows: Sequence[CounterRow]) -> Work:
    def by_cpu(kind: Kind, name: str | None) -> ByCpu:
        found: dict[int, int] = {}
        for row in rows:
            named = _of_device(row.name) if name is None else row.name == name
            if row.kind == kind and named and row.cpu is not None:
                found[row.cpu] = found.get(row.cpu, 0) + row.value
        return dict(sorted(found.items()))

    def threads(prefix: str) -> int:
        return sum(row.value for row in rows if row.kind == TIMED and row.name.startswith(prefix))

    lost: dict[str, int] = {}
    for row in rows:
        # The kind of a qdisc, such as pfifo_fast, says nothing of what it lost.
        name = row.name.rpartition(" ")[2] if row.kind == "qdisc" else row.name
        if row.kind in LOSING and LOST.search(name):
            lost[row.name] = lost.get(row.name, 0) + row.value

    return Work(
        setting=setting,
        trials=trials,
        interrupts=by_cpu("interrupt", None),
        net_rx=by_cpu("softirq", "NET_RX"),
        processed=by_cpu("softnet", "processed"),
        squeezed=sum(by_cpu("softnet", "time_squeeze").values()),
        dropped=sum(by_cpu("softnet", "dropped").values()),
        napi_ns=threads(NAPI_THREAD),
        ksoftirqd_ns=threads(SOFTIRQ_THREAD),
        lost=dict(sorted(lost.items(), key=lambda item: -item[1])),
    )
