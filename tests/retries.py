# SPDX-License-Identifier: GPL-2.0-or-later
"""What was tried a second time: a product that needs it each time would pass all the same.

Tests that run it for real say that it was not needed. What is not ours, an assertion of QEMU or a
packet that a kernel sends of its own, is a warning in pytest's summary.
"""

from __future__ import annotations

import re
import warnings

from skblab.probe.scripts import bpftrace
from skblab.probe.verify.plan import BACKENDS
from skblab_analysis.base.errors import SkblabWarning
from skblab_analysis.load import Run

# Of all loads that were offered, so many may have been offered again.
STRAYS = 0.1
# Those whose programs take long enough for a busy machine to find them at work.
SAY_SO = "|".join(
    backend.name for backend in BACKENDS if backend.by_kprobe or backend.tool == bpftrace.NAME
)
MISSED = re.compile(rf"^\W*({SAY_SO}) .*\(again: \d+ missed, as it said\)")


def no_retries(run: Run) -> None:
    """Fail if a testbed of a sweep was lost or never came up, or many loads were offered again."""
    events = [event.model_dump(mode="json") for event in run.journal]
    lost = [happened for happened in events if happened["event"] in ("death", "another")]
    assert lost == [], lost
    again = [happened for happened in events if happened["event"] == "again"]
    assert len(again) <= STRAYS * sum(happened["event"] == "load" for happened in events), again
    for retry in again:
        counts = ", ".join(f"{name} {retry[name]}" for name in ("sent", "forwarded", "received"))
        told = f"{retry['setting']}: a load was offered again ({counts})"
        warnings.warn(told, SkblabWarning, stacklevel=2)


def verified_at_once(said: str) -> None:
    """Fail if `skblab probe verify` counted any case a second time, slower.

    But for kprobes and bpftrace that said once that they missed packets: while a CPU is at one,
    packets that an interrupt brings there meet no other, so a machine that stops a guest's CPU
    makes them miss.
    """
    for line in said.splitlines():
        if "(again: " in line:
            assert MISSED.search(line), said
            warnings.warn(line.strip(), SkblabWarning, stacklevel=2)


def tell(said: str) -> None:
    """Have pytest's summary show what a command warned of on its standard error."""
    for line in said.splitlines():
        if "; booting the guest again" in line:
            warnings.warn(line, SkblabWarning, stacklevel=2)
