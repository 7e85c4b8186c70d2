# SPDX-License-Identifier: GPL-2.0-or-later
"""What the stirrer of a soak does when: pure, the same for the same seed and length."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass

# Shares of the whole, in order. During faults the stirring goes on.
PHASES: tuple[tuple[str, float], ...] = (
    ("stir", 0.35),
    ("fail slab", 0.15),
    ("stir again", 0.20),
    ("fail pages", 0.10),
    ("stir at last", 0.20),
)
# Steps a second that are planned; a slow guest does fewer, and says how many.
RATE = 15
# How long a load may rest after a batch, in seconds: on the debug flavour a batch takes long, and
# the stirrer must get on.
LONGEST_REST = 4.0
# The devices that the stirrer may touch, as `guest/topology.py` makes them.
DEVICES = ("d0", "d1", "r0", "r1", "q0", "q1", "p0", "p1")
EVENTS = ("net_path/net_path_late", "napi/napi_poll_sample")
# What makes the kernel rewrite its own code even where static keys are variables.
REWRITING = frozenset({"event", "trigger"})
# Files of debugfs `net_path/` with a time that makes packets late, in nanoseconds.
LIMITS = ("late_age_ns", "late_interval_ns")
# Whose packets alone are to be stamped: a namespace, one that there is not, or any.
NAMESPACES = ("sa", "sb", "sr", "sc", "none", *("any",) * 5)


@dataclass(frozen=True)
class Step:
    """One thing to do, `at` seconds after the beginning."""

    at: float
    action: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Phase:
    """A stretch of the soak, in seconds from its beginning."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Plan:
    """All that a soak will do; the arguments of `make` say it all again."""

    seed: int
    seconds: float
    phases: tuple[Phase, ...]
    steps: tuple[Step, ...]
    longest_rest: float

    def json(self) -> str:
        """Return the plan as the guest reads it."""
        return json.dumps(asdict(self))


def _path_trace(rng: random.Random) -> tuple[str, ...]:
    return (str(rng.choice((0, 1, 1))),)


def _event(rng: random.Random) -> tuple[str, ...]:
    return rng.choice(EVENTS), str(rng.randrange(2))


def _late(rng: random.Random) -> tuple[str, ...]:
    # 0 is no limit, and 100 nanoseconds make nearly every packet late.
    return rng.choice(LIMITS), str(rng.choice((0, 100, 10_000, 1_000_000, 10**9, 1 << 60)))


def _device(rng: random.Random) -> str:
    return rng.choice(DEVICES)


def _napi(rng: random.Random) -> tuple[str, ...]:
    # Never a real-time thread that polls for ever: it would starve the guest by design.
    kind, value = rng.choice(
        (
            ("threaded", "disabled"),
            ("threaded", "enabled"),
            ("threaded", "busy-poll"),
            ("thread-cpus", rng.choice(("0", "1", "0-1", "all"))),
            ("thread-nice", str(rng.randrange(-5, 6))),
            ("fifo", str(rng.randrange(1, 11))),
            ("other", "0"),
        )
    )
    return _device(rng), kind, value


def _qdisc(rng: random.Random) -> tuple[str, ...]:
    return (
        rng.choice(("q0", "q1", "d0")),
        rng.choice(
            (
                *("netem delay 2ms 1ms limit 200", "netem loss 2% duplicate 2%", "fq_codel"),
                *("tbf rate 20mbit burst 20k limit 100k", "pfifo limit 50", "fq", "noqueue", "sfq"),
            )
        ),
    )


# How often, relative to the others, and with which words.
ACTIONS: dict[str, tuple[int, Callable[[random.Random], tuple[str, ...]]]] = {
    "path_trace": (10, _path_trace),
    "histograms_read": (4, lambda rng: ()),
    "histograms_reset": (2, lambda rng: ()),
    "napi_histograms": (3, lambda rng: (str(rng.randrange(2)),)),
    "event": (6, _event),
    "trigger": (2, lambda rng: (str(rng.randrange(2)),)),
    "late": (4, _late),
    "netns": (2, lambda rng: (rng.choice(NAMESPACES),)),
    "threaded": (4, lambda rng: (_device(rng), str(rng.randrange(2)))),
    "napi": (6, _napi),
    "device": (3, lambda rng: (str(rng.randrange(2)),)),
    "namespace": (2, lambda rng: ()),
    "cpu": (2, lambda rng: (str(rng.randrange(2)),)),
    "rps": (3, lambda rng: (_device(rng), rng.choice(("0", "1", "2", "3")))),
    "gro": (3, lambda rng: (_device(rng), rng.choice(("on", "off")))),
    "offload": (2, lambda rng: (rng.choice(("d0", "p0", "r0")), rng.choice(("on", "off")))),
    "qdisc": (3, _qdisc),
    "link": (2, lambda rng: (rng.choice(("d0", "p0", "p1")),)),
    "mtu": (2, lambda rng: (rng.choice(("d0", "r0")), rng.choice(("1500", "1400", "1300")))),
    "queues": (1, lambda rng: ("d0", str(1 + rng.randrange(2)))),
    "bridge_port": (1, lambda rng: ()),
    "rules": (2, lambda rng: (rng.choice(("drop", "limit", "none")),)),
}


def make(
    seed: int,
    seconds: float,
    without: Collection[str] = (),
    longest_rest: float = LONGEST_REST,
) -> Plan:
    """Return the plan for a seed and a length in seconds, `without` some actions."""
    choose = random.Random(seed)
    phases: list[Phase] = []
    begin = 0.0
    for name, share in PHASES:
        phases.append(Phase(name, begin, begin + share * seconds))
        begin += share * seconds
    names = [name for name in ACTIONS if name not in without]
    weights = [ACTIONS[name][0] for name in names]
    steps: list[Step] = []
    # Each once first, so that even a short soak does everything.
    order = choose.sample(names, len(names))
    at = 0.0
    while at < seconds:
        action = order.pop() if order else choose.choices(names, weights)[0]
        steps.append(Step(math.floor(at * 1000) / 1000, action, ACTIONS[action][1](choose)))
        at += choose.expovariate(RATE)
    return Plan(seed, seconds, tuple(phases), tuple(steps), longest_rest)
