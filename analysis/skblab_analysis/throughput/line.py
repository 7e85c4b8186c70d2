# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets per second as bits on a line: frames of Ethernet with what stands between them.

A frame is counted with its checksum, as RFC 2544 does. On the line it also takes a preamble and the
gap to the next one (IEEE 802.3). Traffic of several sizes has no such figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from skblab_analysis.load import Run

# Preamble, start of frame, and the gap.
BETWEEN_BYTES = 7 + 1 + 12
BITS = 8
GIGA = 1e9
MEGA = 1e6
_SIZE = re.compile(r"\b(\d+) bytes\b")
_LINK = re.compile(r"router \S+ link")
_SPEED = re.compile(r"Speed: (\d+)Mb/s")


def frame_bytes(traffic: str) -> int | None:
    """Return how long the frames of traffic are, by its name; None if they are of several sizes."""
    found = _SIZE.search(traffic)
    return int(found[1]) if found and int(found[1]) else None


def without_size(traffic: str) -> str:
    """Return the rest of the name of traffic, which is that of other sizes too."""
    return re.sub(
        r"(^|, )\d+ bytes(, |$)", lambda found: ", " if all(found.groups()) else "", traffic
    )


def bits(rate: float, frame: int) -> float:
    """Return packets per second as bit/s on the line."""
    return rate * (frame + BETWEEN_BYTES) * BITS


def rate_of(bits_per_second: float, frame: int) -> float:
    """Return how many frames a second fill a line of so many bit/s."""
    return bits_per_second / ((frame + BETWEEN_BYTES) * BITS)


def unit_of(most: float) -> tuple[float, str]:
    """Return the unit in which so many bit/s are told: how many it is, and its name."""
    return (GIGA, "Gbit/s") if most >= GIGA else (MEGA, "Mbit/s")


def bits_of_line(run: Run) -> float | None:
    """Return the bit/s of the slowest of the router's links; None if they are not known."""
    environment = run.document.environment
    # Only of hosts a link is a line: that of a guest's device says what somebody made up.
    if environment is None or run.booted:
        return None
    speeds = [
        float(found[1]) * MEGA for found in map(_SPEED.search, _links(environment.more)) if found
    ]
    return min(speeds) if speeds else None


def _links(more: Mapping[str, str]) -> list[str]:
    return [value for name, value in more.items() if _LINK.fullmatch(name)]
