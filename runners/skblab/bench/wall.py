# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput of forwarding in wall time, stamps off and on in turn."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from skblab.bench.measure import SECONDS, head, wall_pairs
from skblab.machine.guest import Guest
from skblab_analysis.formats.bench import WallPair

# About a second and a half under emulation.
PACKETS = 100_000


def script(pairs: int, packets: int = PACKETS) -> str:
    """Return what the guest runs: the benchmark's set-up, then the pairs."""
    body = (resources.files(__package__) / "wall.sh").read_text()
    return "\n".join([*head(0, packets, pairs=str(pairs)), body])


def measure(guest: Guest, pairs: int, logs: Path) -> list[WallPair]:
    """Run the pairs; what was run and printed is kept in `logs`."""
    text = script(pairs)
    (logs / "bench-wall.sh").write_text(text)
    done = guest.transport.start(["sh", "-euc", text]).wait(SECONDS)
    (logs / "bench-wall.txt").write_text(done.stdout + done.stderr)
    done.check("the throughput test")
    return wall_pairs(done.stdout)
