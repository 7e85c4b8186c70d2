# SPDX-License-Identifier: GPL-2.0-or-later
"""SYNTHETIC searches for throughput, for tests of what is made of them: never a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import synthetic_run

from skblab_analysis.formats.run import Command, Plan
from skblab_analysis.rfc2544.rows import Benchmarked, Figure
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput.rows import Found, Judgement, Limit, Load, Search
from skblab_analysis.trials.rows import Part

TRAFFIC = "IPv4, 64 bytes, 1 flow"
# Strict rates by setting, a figure each block; the other goals carry more.
RATES: Mapping[str, Sequence[float]] = {
    "baseline": (80_000, 80_900, 81_500),
    "baseline again": (80_100, 80_600, 81_600),
    "NAPI threads": (84_000, 85_100, 85_400),
    "netfilter: 100 rules in FORWARD": (51_000, 51_300, 51_900),
    "rp_filter=1, strict": (79_200, 81_300, 81_000),
}
GOALS = {"strict": (0.0, 0.0, 1.0), "NDR": (0.0, 0.5, 1.02), "PDR": (0.005, 0.5, 1.04)}
WIDTH = 0.01


def load(rate: float, lost: int = 0) -> Load:
    sent = round(rate)
    return Load(
        load=rate,
        seconds=1.0,
        took=1.0,
        tried=sent,
        forwarded=sent - lost,
        received=sent - lost,
        loss_ratio=lost / sent,
        limit="device" if lost else "none",
    )


def found(
    goal: str, rate: float | None, judgement: Judgement | None = "device", limit: Limit = "device"
) -> Found:
    loss_ratio, exceed_ratio, _ = GOALS[goal]
    return Found(
        goal=goal,
        loss_ratio=loss_ratio,
        exceed_ratio=exceed_ratio,
        width=WIDTH,
        lower=rate,
        upper=2.0 if rate is None else rate * 1.009,
        throughput=rate,
        trials=10,
        limit="none" if judgement is None else limit,
        outcome="no good load" if rate is None else "regular",
        reached=rate is not None,
        judgement=judgement,
    )


def search(
    setting: str,
    boot: int,
    rate: float | None,
    *,
    part: Part = "whole",
    traffic: str = TRAFFIC,
    judgement: Judgement = "device",
    limit: Limit = "device",
) -> Search:
    most = 2.0 if rate is None else rate
    return Search(
        setting=setting,
        part=part,
        block=boot,
        traffic=traffic,
        loads=(load(most * 1.1, lost=1), load(most)),
        goals=tuple(
            found(
                goal,
                None if rate is None else rate * more,
                None if part == "tester" else judgement,
                limit,
            )
            for goal, (_, _, more) in GOALS.items()
        ),
    )


def searches(rates: Mapping[str, Sequence[float]] = RATES) -> Iterator[Search]:
    """Yield block by block the tester, then every setting."""
    for boot in range(max(map(len, rates.values()))):
        yield search("tester", boot, 210_000.0 + boot, part="tester")
        for setting, figures in rates.items():
            if boot < len(figures):
                yield search(setting, boot, figures[boot])


def tested(rate: float, most: float) -> Iterator[Figure]:
    """Yield figures of all of RFC 2544's other tests."""
    for repeat, latency in enumerate((31_000.0, 33_000.0)):
        yield Figure(
            test="latency",
            repeat=repeat,
            load=rate,
            seconds=120.0,
            latency_ns=latency,
            floor_ns=8_000.0,
        )
    for repeat, share in enumerate((1.0, 0.9, 0.4, 0.3)):
        lost = max(1 - rate / (share * most), 0.0)
        yield Figure(
            test="frame loss",
            repeat=repeat,
            load=share * most,
            share=share,
            seconds=60.0,
            loss_percent=100 * lost,
            limit="device" if lost else "none",
        )
    for repeat, burst in enumerate((500, 520, 510)):
        yield Figure(
            test="back-to-back",
            repeat=repeat,
            load=most,
            seconds=30.0,
            burst=burst,
            buffer_s=burst / most * (1 - rate / most),
            limit="device",
        )
    for repeat, seconds in enumerate((0.25, 0.75)):
        yield Figure(
            test="recovery",
            repeat=repeat,
            load=1.1 * rate,
            share=1.1,
            seconds=60.0,
            recovery_s=seconds,
        )


def plan() -> Plan:
    return Plan(
        experiment="settings",
        question="Which setting forwards most?",
        seed=1,
        baseline="baseline",
        again="./skblab sweep settings",
        parameters={"clock": "wall", "testbed": "netns"},
    )


def finished_run(
    results: Path, made: Sequence[Search] | None = None, tested: Sequence[Figure] = ()
) -> Path:
    """Write a whole synthetic sweep and return its folder."""
    folder = RunFolder.create(results, "settings", plan(), synthetic=True)
    for row in searches() if made is None else made:
        folder.record(Benchmarked(row, tuple(tested)))
    reason = "the scatter of rates and delays between blocks is within 5.00% of their means"
    folder.journal("enough", blocks=3, reason=reason)
    return folder.finish(
        synthetic_run.environment(),
        {"searching": 812.4},
        commands=(
            Command(
                where="the router",
                command="ip netns exec router sh -ec 'echo 1 >/sys/class/net/r0/threaded'",
                setting="NAPI threads",
            ),
        ),
        gaps=("All is in one guest.",),
    )
