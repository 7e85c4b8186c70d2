# SPDX-License-Identifier: GPL-2.0-or-later
"""Late packets that nobody measured: a router's trial, as the probe and the tester would tell."""

from __future__ import annotations

import json
from typing import Any

import made_up_arrivals
import test_layering

from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.layers.rows import Probed

LIMIT_NS = 250_000
# Packets of a trial; the tester sees these late.
COUNT = test_layering.COUNT
LATE_AT_TESTER = (3, 4, 10, 11, 12)


def packet(sequence: int | None, layer: str = "route", **more: object) -> dict[str, Any]:
    """A packet that a softirq had the CPU for."""
    return {
        **{"end_ns": 10_000_000, "since_entry_ns": 400_000, "before_ns": 0},
        "times": {"stack": 5_000, "route": 10_000, "done": 20_000} | {layer: 365_000},
        **{"path": "forward", "end": "transmitted", "run": 1, "cpu": 1, "comm": "hog", "pid": 9},
        **{"ifindex": 2, "bytes": 64, "backlog": 3, "sequence": sequence},
        "cpu_did": [
            {"before_end_ns": 300_000, "kind": "softirq", "name": "net_rx", "id": 3, "comm": "hog"}
        ],
    } | more


def arrivals(late: tuple[int, ...] = LATE_AT_TESTER) -> ArrivalsDocument:
    """What the tester says: packets of these numbers were late."""
    latencies = [LIMIT_NS * 2 if one in late else 9_000 for one in range(1, COUNT + 1)]
    made = made_up_arrivals.document(latencies)
    made["late"] = [made_up_arrivals.late(latencies, LIMIT_NS, 1)]
    return ArrivalsDocument.model_validate_json(json.dumps(made))


def probed(
    setting: str, block: int, *packets: dict[str, Any], late: int | None = None
) -> tuple[dict[str, Any], Probed]:
    """Return the probe's document of a trial with these late packets, and what it is of."""
    document = test_layering.document([1000] * (len(test_layering.POINTS) - 1)) | {
        "late": {
            **{"threshold_ns": LIMIT_NS, "in_a_row": 1, "runs": len(packets), "lost": 0},
            **{"packets_late": late or len(packets), "recorded": len(packets)},
            **{"limited": (late or len(packets)) - len(packets), "tracing_stopped": False},
            "packets": list(packets),
        }
    }
    of = test_layering.of(setting, block)
    return document, of.model_copy(update={"arrivals": arrivals()})
