# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons that nobody measured: figures, sides, and the document of them."""

from __future__ import annotations

from skblab_analysis.formats.compare import (
    Cause,
    CompareDocument,
    Figure,
    Measured,
    Side,
    Workload,
    judge,
)
from skblab_analysis.formats.functions import Identity


def figure(instructions: float, **functions: float) -> Figure:
    """Return a figure; what is in no function that is named is in `others`."""
    named = {**functions, "others": instructions - sum(functions.values())}
    return Figure(
        instructions=instructions, iterations=0.0, clock=instructions, units=1000, functions=named
    )


def measured(*figures: Figure | float, workload: str = "forward4") -> list[Measured]:
    """Return A's first boot, B's, and A's last one."""
    return [
        Measured(
            workload=workload,
            side=side,
            boot=boot,
            figure=one if isinstance(one, Figure) else figure(one),
        )
        for boot, (side, one) in enumerate(zip((0, 1, 0), figures, strict=True))
    ]


def without(side: int, boot: int, cause: Cause, why: str = "guest panic: sysrq") -> Measured:
    """Return what has no figure."""
    return Measured(workload="forward4", side=side, boot=boot, why=why, cause=cause)


def side(name: str, **more: str) -> Side:
    """Return a side of a kernel."""
    return Side(
        name=name,
        kernel=Identity(
            name=name,
            release=f"{name}-plain",
            key="0123456789abcdef",
            source="6.12.1",
            source_digest="d",
            config_sha256="c",
            patches=(),
        ),
        toolchain={"gcc": "14"},
        settings=more,
    )


def document(*found: Measured, sides: int = 2, **more: object) -> CompareDocument:
    """Return a document of what was measured, judged."""
    names = list(dict.fromkeys(one.workload for one in found))
    return CompareDocument(
        again="./skblab compare 6.12 7.3",
        packets=12000,
        instrument={"emulator": "10.0"},
        sides=tuple(side(name) for name in ("6.12", "7.3", "debian:6.1")[:sides]),
        workloads=tuple(
            Workload(name=name, title=f"title of {name}", unit="packet", sha256="0")
            for name in names
        ),
        measured=found,
        verdicts=tuple(judge(name, number, found) for name in names for number in range(1, sides)),
        **more,
    )
