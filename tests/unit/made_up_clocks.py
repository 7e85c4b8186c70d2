# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up document of `skblab-traffic clock`."""

from __future__ import annotations

from typing import Any

KEPT = {"synchronized": True, "max_error_us": 5, "frequency_ppb": -7}
SAID: dict[str, Any] = {
    **{"schema": "skblab.traffic/2", "role": "clock", "to": "192.0.2.2:5000"},
    **{"sent": 200, "unsent": 0, "answered": 200, "errors": {}, "not_by_kernel": 0},
    **{
        "round_trip_ns": 60,
        "ahead": {"ahead_ns": 505, "off_ns": 16, "at_ns": 1530, "there_ns": 2035},
        "unknown": None,
    },
    **{"most": {"at_ns": 2000, "ahead_ns": 520}, "least": {"at_ns": 1060, "ahead_ns": 490}},
    **{"near": KEPT, "far": KEPT | {"frequency_ppb": 9}, "stepped_ns": 0},
    "process": {
        **{"realtime": None, "cpu": None, "rt_runtime_us": None, "rt_period_us": None},
        **{"minor_faults": 0, "major_faults": 0, "involuntary_switches": 0},
    },
}
