# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counted of a trial, as it is handed over and stored."""

from __future__ import annotations

from typing import Annotated, Literal

from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Numbered, Row, Table, Text
from skblab_analysis.base.whole import Signed, Whole

Kind = Literal[
    "interrupt",
    "softirq",
    "softnet",
    "device",
    "driver",
    "thread",
    "qdisc",
    "protocol",
    "numa",
    "slab",
]

# Counted in nanoseconds; all others are counts of what their names say.
TIMED: Kind = "thread"


class Counter(Row):
    """By how much one counter rose."""

    kind: Annotated[
        Kind,
        Column(
            NO_UNIT,
            "`interrupt`, `softirq`, `softnet` (/proc/net/softnet_stat), `device` (statistics of "
            "the network device), `driver` (ethtool -S), `thread` (its time on a CPU), `qdisc`, "
            "`protocol` (/proc/net/snmp, snmp6 and netstat of the router's namespace), `numa` "
            "(page allocations of a NUMA node) or `slab` (allocations and frees of a slab cache).",
        ),
    ]
    name: Annotated[Text, Column(NO_UNIT, "Name that the kernel gives it, behind its device.")]
    cpu: Annotated[Whole | None, Column(NO_UNIT, "CPU that counted; null: it is of no CPU.")]
    value: Annotated[Signed, Column(BY_ROW, "By how much it rose.")]

    def row(self, trial: int) -> CounterRow:
        """Return its row, for the trial's number in the run."""
        last = self.name.replace("_", " ").rpartition(" ")[2]
        if self.name.endswith("Octets"):
            last = "bytes"
        unit = "ns" if self.kind == TIMED else last if last in ("bytes", "packets") else ""
        return CounterRow(trial=trial, **dict(self), unit=unit)


class CounterRow(Counter, Numbered):
    """A counter, and of which trial."""

    unit: Annotated[Text, Column(NO_UNIT, "`ns`, `packets`, `bytes`; else what its name says.")]


TABLES = (
    Table(
        CounterRow,
        "counters",
        "by how much one of the kernel's own counters rose in one trial, if it did",
        version=2,
        later=True,
    ),
)
