# SPDX-License-Identifier: GPL-2.0-or-later
"""A document as pktsink prints it, of packets with these latencies, one each ms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from skblab_analysis.base.histogram import Histogram

GAP_NS = 1_000_000


def distribution(values: Sequence[int]) -> dict[str, Any]:
    made = Histogram.of(values)
    return {
        "count": made.count,
        "sum": made.total,
        "min": made.minimum,
        "max": made.maximum,
        "negative": 0,
        "overflow": 0,
        "buckets": [list(pair) for pair in sorted(made.buckets.items())],
    }


def kept(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "count": len(rows),
        "packets": sum(row["packets"] for row in rows),
        "longest": max((row["packets"] for row in rows), default=0),
        "not_recorded": 0,
        "recorded": list(rows),
    }


def late(latencies: Sequence[int], threshold: int, in_a_row: int = 2) -> dict[str, Any]:
    rows = []
    for is_late, group in groupby(enumerate(latencies), lambda one: one[1] >= threshold):
        members = list(group)
        numbers, values = [member[0] for member in members], [member[1] for member in members]
        if not is_late or len(members) < in_a_row:
            continue
        rows.append(
            {
                "begin_ns": numbers[0] * GAP_NS + values[0] - latencies[0],
                "end_ns": numbers[-1] * GAP_NS + values[-1] - latencies[0],
                "packets": len(members),
                "sequence": numbers[0] + 1,
                "sent_ns": (len(members) - 1) * GAP_NS,
                "sum_ns": sum(values),
                "min_ns": min(values),
                "max_ns": max(values),
                "open_begin": numbers[0] == 0,
                "open_end": numbers[-1] == len(latencies) - 1,
            }
        )
    return {
        "threshold_ns": threshold,
        "in_a_row": in_a_row,
        "packets_late": sum(value >= threshold for value in latencies),
        "runs": kept(rows),
    }


def document(latencies: Sequence[int]) -> dict[str, Any]:
    """Return it; nothing is lost, and all is stamped at egress."""
    count = len(latencies)
    arrived = [number * GAP_NS + value for number, value in enumerate(latencies)]
    return {
        "schema": "skblab.pktsink/1",
        "kernel": "6.12.117",
        "clock_unit": "ns",
        "sub_buckets": 16,
        "seconds": 2.5,
        "device": "s0",
        "ifindex": 4,
        "clock": {"tai_offset_s": {"start": 0, "end": 0}, "steps": 0, "stepped_ns": 0},
        "stamps": {
            "none": 0,
            "pktgen": 0,
            "egress": count,
            "resolution_ns": 1 if count else None,
            "stamper": {"device": "g0", "stamped": count, "failed": 0},
        },
        "packets": {
            "seen": count,
            "foreign": 0,
            "received": count,
            "merged": 0,
            "distinct": count,
            "duplicates": 0,
            "reordered": 0,
            "furthest_behind": 0,
            "too_old": 0,
            "highest": count,
            "lost": 0,
            "last_lost": 0,
            "outside": 0,
        },
        "span": {
            "first_packet_ns": 1_700_000_000_000_000_000 if count else None,
            "last_packet_ns": arrived[-1] - arrived[0] if count else 0,
            "from_ns": 0,
            "until_ns": None,
        },
        "latency": distribution(latencies),
        "inter_arrival": distribution([after - before for before, after in pairwise(arrived)]),
        "jitter": distribution([abs(after - before) for before, after in pairwise(latencies)]),
        "late": [late(latencies, 250_000), late(latencies, 750_000)],
        "gaps": kept([]) | {"last": None},
    }
