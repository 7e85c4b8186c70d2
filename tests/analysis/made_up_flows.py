# SPDX-License-Identifier: GPL-2.0-or-later
"""Flows that nobody measured: what a sender and a receiver would have said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skblab_analysis.base.checked import parse
from skblab_analysis.formats.pathlat import ReceiverDocument, SenderDocument
from skblab_analysis.formats.published import Published, parameters
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.traffic.rows import Exchanged

PACKETS = 10_000
# The name of the flow.
FLOW = "one way"
BASELINE = "no real-time mode"
NAMES = (BASELINE, "priority 50", "the same again")
# What a study has published of the first setting.
PUBLISHED = {BASELINE: Published({"least": 845e3, "p50": 1e6, "most": 1158e3, "deviation": 26e3})}


def times(middle: int, spread: int, count: int = PACKETS - 1) -> dict[str, Any]:
    """Times around one, in ns."""
    return {
        **{"count": count, "negative": 0, "min_ns": middle - spread, "mean_ns": float(middle)},
        **{"sd_ns": spread / 3, "max_ns": middle + spread},
        "percentiles_ns": {"50": middle, "99": middle + spread // 2, "99.9": middle + spread},
    }


def exchanged(
    setting: str,
    block: int,
    error: int,
    lost: int = 0,
    rate: int | None = 1000,
    *,
    unsent: int = 0,
    **more: object,
) -> Exchanged:
    """A trial of a flow whose inter-arrival times are off by up to `error` ns.

    `more` is of the receiver.
    """
    came = PACKETS - lost
    receiver = {
        **{"schema": "skblab.traffic/2", "role": "receive", "expected": PACKETS, "received": came},
        **{"distinct": came, "duplicates": 0, "reordered": 3, "lost": max(lost, 0), "too_old": 0},
        **{
            "beyond": 0,
            "foreign": {"total": 0},
            "socket": {"drops": 0},
            "rate": 1000.0 - error / 1000,
        },
        "inter_arrival": times(1_000_000, error),
        "inter_arrival_error": times(error, error) if rate else None,
        "jitter": times(2000, 1000),
        "delay": times(9000, 5000),
    } | more
    sender = {
        **{"schema": "skblab.traffic/2", "role": "send", "sent": PACKETS, "unsent": unsent},
        "rate_reached": 999.9,
        "late": {"threshold_ns": 100_000, "count": 2, "mean_ns": 12.5, "max_ns": 123_456},
    }
    return Exchanged(
        setting=setting,
        block=block,
        traffic=FLOW,
        rate=rate,
        sender=parse(SenderDocument, json.dumps(sender), "a sender"),
        receiver=parse(ReceiverDocument, json.dumps(receiver), "a receiver"),
    )


def recorded(results: Path, *found: Exchanged) -> Run:
    plan = Plan(
        experiment="few",
        question="Does it matter?",
        seed=1,
        baseline=BASELINE,
        settings=NAMES,
        traffic=(FLOW,),
        parameters={"flow one way": "IPv4, 16 bytes, 1000/s", **parameters(PUBLISHED)},
    )
    folder = RunFolder.create(results, "few", plan, synthetic=True)
    for trial in found:
        folder.record(trial)
    return load(folder.path)


def study(results: Path, *, rate: int | None = 1000, **of_receiver: None) -> Run:
    """Three blocks of three settings; with the second one times are ten times as exact."""
    return recorded(
        results,
        *(
            exchanged(setting, block, error + 100 * block, 0, rate, unsent=0, **of_receiver)
            for block in range(3)
            for setting, error in zip(NAMES, (50_000, 5_000, 50_250), strict=True)
        ),
    )


def finished_run(results: Path) -> Path:
    """Return the folder of such a run that has ended."""
    return study(results).folder
