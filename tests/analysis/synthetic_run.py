# SPDX-License-Identifier: GPL-2.0-or-later
"""SYNTHETIC run folders for tests: made-up numbers, shaped like the demo's, never a measurement.

Every folder made here says `"synthetic": true` in its run.json.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from skblab_analysis.base.histogram import Histogram, bounds
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.formats.run import Command, Environment, Guest, Host, Kernel, Plan
from skblab_analysis.runfolder import RunFolder

POINTS = ("driver", "stack", "ip", "route", "local", "transport", "socket", "wake", "user")
FORWARD_POINTS = ("driver", "stack", "ip", "route", "forward", "output", "queue", "xmit", "done")
SEND_POINTS = ("send", "transport", "output", "queue", "xmit", "done")

# Median in ns and spread of the log-normal each layer is drawn from.
SHAPES = (
    (900, 0.25),
    (1_400, 0.2),
    (1_700, 0.3),
    (600, 0.3),
    (300, 0.2),
    (1_900, 0.22),
    (31_000, 0.8),
    (1_200, 0.3),
)
SEND_SHAPES = ((4_000, 0.3), (900, 0.2), (700, 0.2), (800, 0.2), (500, 0.4))
# The layer that has the slow ones: in the queue until the reader runs.
WAIT = 6

Json = dict[str, Any]


def _distribution(values: list[int]) -> Json:
    histogram = Histogram.of(values)
    return {
        "count": histogram.count,
        "sum": histogram.total,
        "min": histogram.minimum,
        "max": histogram.maximum,
        "negative": 0,
        "overflow": 0,
        "buckets": [[bucket, count] for bucket, count in sorted(histogram.buckets.items())],
    }


def _drawn(rng: random.Random, shapes: Sequence[tuple[float, float]]) -> list[int]:
    return [round(median * rng.lognormvariate(0, spread)) for median, spread in shapes]


def _ends(**counts: int) -> Json:
    return dict.fromkeys(("delivered", "dropped", "transmitted", "consumed"), 0) | counts


def _path(
    name: str,
    points: Sequence[str],
    end: str,
    rows: Sequence[Sequence[int]],
    leg: list[int],
    total: list[int] | None = None,
) -> Json:
    whole = {"from": points[0], "to": points[-1]}
    layers = [
        {"from": start, "to": stop, **_distribution([row[number] for row in rows])}
        for number, (start, stop) in enumerate(pairwise(points))
    ]
    return {
        "path": name,
        "usual_end": end,
        "ends": _ends(**{end: len(rows)}),
        "seen": dict.fromkeys(points, len(rows)),
        "seen_dropped": dict.fromkeys(points, 0),
        "drop_reasons": {},
        "negative": 0,
        "overflow": 0,
        "reentered": 0,
        "layers": layers if rows else [],
        "path_time": whole | _distribution(leg),
        "since_entry": whole | _distribution(leg if total is None else total),
    }


def pathlat(
    packets: int = 20_000,
    seed: int = 1,
    dropped: int = 0,
    shapes: Sequence[tuple[float, float]] = SHAPES,
) -> Json:
    """A pathlat document whose layers add up to its total, packet by packet."""
    return copy.deepcopy(_pathlat(packets, seed, dropped, tuple(shapes)))


# Many tests of a file take the same one, and drawing 200 000 times takes a quarter of a second.
@functools.cache
def _pathlat(
    packets: int, seed: int, dropped: int, shapes: tuple[tuple[float, float], ...]
) -> Json:
    rng = random.Random(seed)
    sent = [_drawn(rng, SEND_SHAPES) for _ in range(packets + dropped)]
    rows = []
    for _ in range(packets):
        row = _drawn(rng, shapes)
        if rng.random() < 0.004:
            row[WAIT] += rng.randrange(400_000, 3_000_000)
        rows.append(row)
    leg = [sum(row) for row in rows]
    total = [time + sum(before) for time, before in zip(leg, sent, strict=False)]
    polls = [round(7_000 * rng.lognormvariate(0, 0.6)) for _ in range(packets // 8)]
    work = [round(21_000 * rng.lognormvariate(0, 0.5)) for _ in range(packets // 8)]
    rare = [round(60_000 * rng.lognormvariate(0, 0.9)) for _ in range(packets // 400)]
    return {
        "schema": "skblab.pathlat/3",
        "kernel": "6.12.48-skblab",
        "clock_unit": "ns",
        "sub_buckets": 16,
        "stamps_on": {"start": True, "end": True},
        "samples": {"filtered": 12, "unknown": 0, "missed": 0},
        "merged": 0,
        "flags": {"negative": 0, "overflow": 0, "copy": 0, "reentered": packets + dropped},
        "paths": [
            _path("receive", POINTS, "delivered", rows, leg, total)
            | {
                "ends": _ends(delivered=packets, dropped=dropped),
                "reentered": packets + dropped,
                "seen_dropped": {
                    point: dropped if number < 7 else 0 for number, point in enumerate(POINTS)
                },
                "drop_reasons": {"SOCKET_RCVBUFF": dropped} if dropped else {},
            },
            _path("forward", FORWARD_POINTS, "transmitted", [], [], []),
            _path("send", SEND_POINTS, "transmitted", sent, [sum(row) for row in sent]),
        ],
        "napi": [
            {"name": "delay", "context": "softirq", **_distribution(polls)},
            {"name": "delay", "context": "ksoftirqd", **_distribution(rare)},
            {"name": "time", "context": "softirq", **_distribution(work), "work": packets},
        ],
    }


# Points that all packets pass before anybody knows where they go.
COMING = ("driver", "stack", "ip", "route")


def _counted(layer: Json) -> Json:
    """The same times as the kernel's own histograms have them: bounds, and edges of buckets."""
    edges = [[edge + 1 for edge in bounds(bucket)] for bucket, _ in layer["buckets"]]
    buckets = [[number, count] for number, (_, count) in enumerate(layer["buckets"])]
    ends = {"min": edges[0][0], "max": edges[-1][1]} if edges else {}
    return layer | ends | {"bounded": True, "buckets": buckets, "edges": edges}


def histograms(packets: int = 200, **counts: int) -> Json:
    """What the kernel's own histograms tell of `pathlat`'s packets; `counts` differ."""
    document = dict(pathlat(packets))
    receive, forward, send = document["paths"]
    coming = [layer for layer in receive["layers"] if layer["to"] in COMING]
    after = [layer for layer in receive["layers"] if layer["to"] not in COMING]
    paths = []
    for path, layers in ((receive, after), (forward, []), (send, send["layers"])):
        whole = _counted(path["path_time"])
        seen = {layer["to"]: layer["count"] for layer in layers}
        seen |= {layer["from"]: layer["count"] for layer in layers[:1]}
        kept = {name: path[name] for name in ("path", "usual_end", "ends")}
        kept |= {"seen": seen, "layers": [_counted(layer) for layer in layers]}
        paths.append(kept | {"all_passed": True, "path_time": whole, "since_entry": whole})
    known = {"entered": packets, "sent": packets, "dropped": 0, "unclear": 0, "stale": 0} | counts
    return document | {
        "schema": "skblab.pathlat/4",
        "source": "histograms",
        "samples": None,
        "histograms": known,
        "flags": {"negative": 0},
        "in": {
            "seen": dict.fromkeys(COMING, packets),
            "layers": [_counted(layer) for layer in coming],
        },
        "paths": paths,
    }


def sender(packets: int = 20_000, unsent: int = 0) -> Json:
    return {
        "schema": "skblab.traffic/1",
        "role": "send",
        "attempted": packets,
        "sent": packets - unsent,
        "unsent": unsent,
        "rate_reached": 19_998.7,
        "late": {
            "threshold_ns": 100_000,
            "count": packets // 50,
            "mean_ns": 4_211.5,
            "max_ns": 1_250_000,
        },
    }


def receiver(packets: int = 20_000, lost: int = 0) -> Json:
    return {
        "schema": "skblab.traffic/1",
        "role": "receive",
        "expected": packets,
        "received": packets - lost,
        "distinct": packets - lost,
        "duplicates": 0,
        "reordered": 0,
        "lost": lost,
        "too_old": 0,
        "beyond": 0,
        "foreign": {"total": 0},
        "rate": 19_996.2,
    }


def exact_trials() -> list[ExactTrial]:
    """Two settings and the tester alone, in two boots of two repeats each."""
    per_packet = {
        ("rp_filter=0", "whole"): 7_627.1,
        ("rp_filter=1", "whole"): 7_977.4,
        ("none", "tester"): 3_415.8,
    }
    rng = random.Random(2)
    return [
        ExactTrial.model_validate(
            {
                "setting": setting,
                "part": part,
                "block": boot,
                "repeat": repeat,
                "packets": 2_000,
                "delivered": 2_000,
                "instructions": round(2_000 * cost * rng.uniform(0.9998, 1.0002)),
            }
        )
        for boot in range(2)
        for repeat in range(2)
        for (setting, part), cost in per_packet.items()
    ]


def plan(packets: int = 20_000) -> Plan:
    return Plan(
        experiment="demo",
        question="Where does a UDP packet's time go, and what does rp_filter cost?",
        seed=20_160_229,
        packets=packets,
        baseline="rp_filter=0",
        again="make demo",
        parameters={"payload_bytes": 64, "rate_pps": 20_000},
    )


def environment() -> Environment:
    return Environment(
        kernel=Kernel(
            release="6.12.48-skblab",
            version="#1 SMP PREEMPT_DYNAMIC Debian",
            flavour="stock",
            source="linux-source-6.12 6.12.48-1",
            config_hash="9f2c11d07a3be845",
            patches=(
                "0001-net-time-NAPI-schedule-to-poll.patch",
                "0002-net-carry-a-path-stamp-in-the-skb.patch",
            ),
        ),
        guests={
            "wall": Guest(
                accel="tcg",
                cpus=2,
                memory_mib=2048,
                command_line="console=ttyS0 root=lab rootfstype=9p panic=-1 mitigations=auto",
                clocksource="tsc",
                machine="-machine q35 -accel tcg,thread=multi -smp 2",
            ),
            "exact": Guest(
                accel="tcg",
                cpus=1,
                memory_mib=2048,
                command_line="console=ttyS0 root=lab rootfstype=9p clocksource=tsc tsc=reliable",
                clocksource="tsc",
                machine="-accel tcg,thread=single -icount shift=0,sleep=off -smp 1",
            ),
        },
        host=Host(
            system="Debian GNU/Linux 12", cpu="Synthetic CPU @ 2.60GHz", cpus=2, memory_mib=24_000
        ),
        more={"KVM": "does not boot a guest here; TCG was used"},
    )


def record_all(folder: RunFolder, trials: Sequence[ExactTrial]) -> None:
    """Record counted trials, one after the other."""
    for trial in trials:
        folder.record(trial)


def finished_run(results: Path, packets: int = 20_000) -> Path:
    """Write a whole synthetic run and return its folder."""
    folder = RunFolder.create(results, "demo", plan(packets), synthetic=True)
    folder.journal("attempt", trial=0)
    lost = packets // 500
    folder.record_probe(
        pathlat(packets - lost, dropped=lost), said=(sender(packets), receiver(packets, lost))
    )
    record_all(folder, exact_trials())
    return folder.finish(
        environment(),
        {"lab root": 0.4, "kernel": 3.1, "wall trial": 14.2, "exact trials": 21.7},
        versions={"skblab": "0.1.0", "qemu": "10.0.3", "gnuplot": "6.0.2", "gcc": "14.2.0"},
        commands=(
            Command(where="guest, namespace rx", command="skblab-traffic receive --port 9000"),
            Command(
                where="guest, namespace tx",
                command=f"skblab-traffic send 10.0.0.2:9000 --count {packets} --rate 20000",
            ),
            Command(where="guest", command="pathlat --port 9000 --output pathlat.json"),
        ),
        gaps=("The guest has no hardware timer of its own: its clock is the emulator's.",),
    )
