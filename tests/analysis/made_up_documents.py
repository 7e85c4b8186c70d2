# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents of profiles, comparisons and searches that nobody made, with something of everything.

A run folder has any of them beside its tables; FILES says under which names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import made_up_comparison
from pydantic import BaseModel

import made_up_functimes
from skblab_analysis.formats import bisect, compare, functimes, functions
from skblab_analysis.formats.bench import Row
from skblab_analysis.formats.bisect import BisectDocument, Changed, Step
from skblab_analysis.formats.functions import Function, FunctionsDocument, Layer, Run
from skblab_analysis.formats.memory import (
    Cache,
    Line,
    Memory,
    Missed,
    Misses,
    Simulated,
    Structure,
    Touched,
)

Json = dict[str, Any]
CACHES = Simulated(
    title="Made up",
    source="nobody",
    line=64,
    code=Cache(bytes=32_768, ways=8),
    data=Cache(bytes=32_768, ways=8),
    second=Cache(bytes=524_288, ways=8),
)
FEW = Misses(accesses=9.0, code=1.5, data=2.0, second=3.0, written=0.25)
MORE = Misses(accesses=12.0, code=2.5, data=2.0, second=4.0, written=0.5)
MEMORY = Memory(
    named="made-up",
    processor=CACHES,
    functions=(Missed(name="ip_rcv", a=FEW, b=MORE), Missed(name="new", b=FEW)),
    layers=(Missed(name="ip", a=FEW, b=MORE),),
    types=(Touched(name="skbuff_head_cache", size=232, a=FEW, b=MORE, a_lines=3, b_lines=4),),
    structures=(
        Structure(
            name="sk_buff",
            cache="skbuff_head_cache",
            size=232,
            lines=(Line(number=0, a=3.0, b=5.0, fields=("next", "prev"), before=("next",)),),
        ),
    ),
)
KERNEL = made_up_comparison.side("6.12").kernel


def _row(name: str, title: str) -> Row:
    return Row(name=name, title=title, group="patch", kernel="6.12.1", tool="")


def profile(*, alone: bool = False) -> FunctionsDocument:
    """Return a profile of two kernels, or of one."""
    rows: dict[str, Any] = {} if alone else {"a": _row("a", "6.12")}
    clock: dict[functions.Side, float] = {"b": 143.0} if alone else {"a": 110.0, "b": 143.0}
    kernels: dict[functions.Side, functions.Identity] = (
        {"b": KERNEL} if alone else {"a": KERNEL, "b": KERNEL}
    )
    found = (
        Function(
            name="ip_rcv", a=100.0, b=130.0, b_again=2.0, a_inclusive=109.0, b_inclusive=140.0
        ),
        Function(name="old", a=9.0, b=0.0),
        Function(name="new", a=0.0, b=10.5),
    )
    return FunctionsDocument(
        again="./skblab profile",
        case="forward",
        family=4,
        **rows,
        b=_row("b", "7.3"),
        kernels=kernels,
        settings={"b": {"gro": "off"}},
        clock=clock,
        functions=tuple(one.model_copy(update={"a": 0.0}) for one in found) if alone else found,
        layers=(Layer(name="ip", a=100.0, b=130.0), Layer(name="around", a=9.0, b=10.5)),
        memory=MEMORY,
        notes=("A note.",),
        runs=(
            Run(
                row="b",
                repeat=0,
                part="forward",
                packets=9,
                delivered=9,
                instructions=1287,
                counted=1290,
            ),
        ),
    )


def comparison() -> compare.CompareDocument:
    """Return a comparison of three kernels by two workloads, of which one is not supported."""
    found = [
        compare.Measured(
            workload=workload,
            side=side,
            boot=boot,
            figure=made_up_comparison.figure(cost, ip_rcv=cost / 10).model_copy(
                update={"missed": FEW if side else MORE}
            ),
        )
        for workload, costs in {"forward4": (1000.0, 1050.0, 990.0, 1000.1)}.items()
        for boot, (side, cost) in enumerate(zip((0, 1, 2, 0), costs, strict=True))
    ]
    missing = compare.Measured(
        workload="receive6", side=1, boot=1, why="it has no IPv6", cause="lacking"
    )
    others = [
        one.model_copy(update={"workload": "receive6"}) for one in found if one.side != missing.side
    ]
    made = made_up_comparison.document(*found, *others, missing, sides=3, caches=CACHES)
    return made.model_copy(
        update={"notes": ("A note.",), "configurations": {"1": ("CONFIG_A: y -> n",)}}
    )


def search() -> BisectDocument:
    """Return a search that found a commit, and left one out."""
    costs = {"a" * 40: 1000.0, "b" * 40: 1001.0, "c" * 40: 1101.0, "d" * 40: 1140.0}
    good, parent, culprit, bad = costs
    steps = [
        Step(
            commit=commit,
            subject=f"net: {commit[0]}",
            verdict="bad" if cost > 1100 else "good",
            figures=(made_up_comparison.figure(cost, ip_rcv=100.0),),
        )
        for commit, cost in costs.items()
    ]
    left = Step(commit="e" * 40, subject="net: e", verdict="skipped", figures=(), why="no boot")
    return BisectDocument(
        again="./skblab bisect",
        repository="linux",
        good=good,
        bad=bad,
        workload=made_up_comparison.document(*made_up_comparison.measured(1.0, 1.0, 1.0)).workloads[
            0
        ],
        packets=1000,
        instrument={"emulator": "10.0"},
        steps=(*steps, left),
        found=(culprit,),
        parent=parent,
        step=100.0,
        functions=(Changed(name="ip_rcv", difference=99.0),),
    )


def plain(document: BaseModel) -> Json:
    """Return a document as a file has it."""
    found: Json = json.loads(document.model_dump_json(by_alias=True))
    return found


FILES: Mapping[str, Json] = {
    functions.FILE: plain(profile()),
    compare.FILE: plain(comparison()),
    bisect.FILE: plain(search()),
    functimes.FILE: made_up_functimes.document(),
}
