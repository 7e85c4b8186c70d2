# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput of forwarding in wall time, stamps off and on in turn."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from skblab.bench.measure import SECONDS, wall_pairs
from skblab.machine.guest import Guest
from skblab.testbeds import generator
from skblab_analysis.cost.bench import WallPair

# About a second and a half under emulation.
PACKETS = 100_000

PAIRS = """
# Prints a line a pair: family pair first microseconds-off microseconds-on packets
once() { # value
	sysctl -q -w "net.core.path_trace=$1"
	[ "$(sysctl -n net.core.path_trace)" = "$1" ]
	before=$(dropped s0)
	elapsed=$(timed "$family" g0 02:00:00:00:00:02 "$packets")
	[ $(($(dropped s0) - before)) = "$packets" ]
	echo "$elapsed"
}
for family in 4 6; do
	once 0 >/dev/null
	once 1 >/dev/null
	pair=1
	while [ "$pair" -le "$pairs" ]; do
		if [ $((pair % 2)) = 1 ]; then
			off=$(once 0) on=$(once 1)
			echo "$family $pair off $off $on $packets"
		else
			on=$(once 1) off=$(once 0)
			echo "$family $pair on $off $on $packets"
		fi
		pair=$((pair + 1))
	done
done
"""


def script(pairs: int, packets: int = PACKETS) -> str:
    """Return what the guest runs: the benchmark's set-up, then the pairs."""
    body = resources.files(__package__).joinpath("bench.sh").read_text()
    # No jump over the time in which multicast reports go out: there is nothing to count here.
    body = body.replace("\nsleep 60\n", "\nsleep 2\n")
    return f"#!/bin/sh\npackets={packets}\npairs={pairs}\n{generator.functions()}{body}{PAIRS}"


def measure(guest: Guest, pairs: int, logs: Path) -> list[WallPair]:
    """Run the pairs; what was run and printed is kept in `logs`."""
    text = script(pairs)
    (logs / "bench-wall.sh").write_text(text)
    done = guest.transport.start(["sh", "-euc", text]).wait(SECONDS)
    (logs / "bench-wall.txt").write_text(done.stdout + done.stderr)
    done.check("the throughput test")
    return wall_pairs(done.stdout)
