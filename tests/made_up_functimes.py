# SPDX-License-Identifier: GPL-2.0-or-later
"""What funclat would say of some calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skblab_analysis.base.histogram import Histogram

Json = dict[str, Any]


def times(values: Sequence[int]) -> Json:
    """Return a distribution as the tools print it."""
    found = Histogram.of(values)
    return {
        "count": found.count,
        "sum": found.total,
        "min": found.minimum,
        "max": found.maximum,
        "negative": 0,
        "overflow": 0,
        "buckets": [list(bucket) for bucket in sorted(found.buckets.items())],
    }


def function(name: str, inclusive: Sequence[int], self: Sequence[int], **more: int) -> Json:
    """Return one function; `more` are counts."""
    counts = ("missed_entries", "missed_returns", "refused", "lost", "under_way", "unentered")
    return {
        "name": name,
        "calls": len(inclusive),
        **dict.fromkeys(counts, 0),
        "own": 500 * len(inclusive),
        "inclusive": times(inclusive),
        "self": times(self),
    } | more


def document(**more: object) -> Json:
    """Return a document of three functions, of which one calls another."""
    return {
        "schema": "skblab.functimes/2",
        "kernel": "6.12.0",
        "by": "fentry",
        "why": None,
        "unit": "ns",
        "sub_buckets": 16,
        "seconds": 2.5,
        "final": True,
        "functions": [
            function("udp_rcv", [3000] * 100, [1000] * 100),
            function("__udp_enqueue_schedule_skb", [2000] * 100, [2000] * 100),
            function("ip6_input", [], []),
        ],
        "absent": [{"name": "ip_rcv_finish_core", "why": "this kernel has no such function"}],
        "probe": {"calls": 1000, "cost": 250.0, "own": 180.0, "empty": times([40] * 1000)},
    } | more
