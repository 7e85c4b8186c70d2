# SPDX-License-Identifier: GPL-2.0-or-later
"""Words and numbers as tables, pictures and pages show them: points, layers, units, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from skblab_analysis.base.histogram import Histogram
from skblab_analysis.formats.pathlat import PathName
from skblab_analysis.latency.summary import LatencySummary
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.summary import LayeringSummary

ABSENT = "–"
NARROW_SPACE = "\u202f"
# Keeps a per cent sign on the line of its number.
FIXED_SPACE = "\u00a0"

# What happens between two points, said for a reader who knows the kernel but not the probe.
LAYERS = {
    ("driver", "stack"): "handed over by the driver, queued for its softirq, GRO",
    ("stack", "ip"): "from the stack’s entry to the network layer: taps, tc, protocol lookup",
    ("ip", "route"): "header checks, PRE_ROUTING hooks, routing decision",
    ("route", "local"): "defragmentation, LOCAL_IN hooks",
    ("ip", "transport"): "header checks, hooks, routing decision, local delivery",
    ("local", "transport"): "to the transport protocol",
    ("transport", "socket"): "checksum, socket lookup and filter, to the socket’s queue",
    ("socket", "wake"): "in the socket’s queue until the reader runs and takes it",
    ("socket", "user"): "in the socket’s queue, the reader wakes, copy to user space",
    ("wake", "user"): "copy to user space",
    ("route", "forward"): "TTL, MTU, FORWARD hooks",
    ("forward", "output"): "POST_ROUTING hooks",
    ("output", "queue"): "neighbour lookup, to the outgoing device’s queue",
    ("queue", "dequeue"): "in the queueing discipline",
    ("queue", "xmit"): "tc, locks, checksum and segmentation for the device",
    ("dequeue", "xmit"): "checksum and segmentation for the device",
    ("xmit", "done"): "in the driver, until it is sent and freed or back in the stack",
    ("send", "transport"): "sendmsg: route, memory, copy from user space",
    ("transport", "output"): "headers, LOCAL_OUT and POST_ROUTING hooks",
    ("irq", "poll"): "from the NIC’s request until its poll begins",
    ("poll", "poll_end"): "inside the poll",
}

# The paths, as titles have them, the one that a run is about first.
PATHS: dict[PathName, str] = {
    "receive": "a packet’s time",
    "send": "the sender’s time",
    "forward": "a forwarded packet’s time",
}

CONTEXTS = {
    "softirq": "softirq",
    "ksoftirqd": "ksoftirqd",
    "kthread": "NAPI thread",
    "busy_poll": "busy poll",
}

# Steps of time units, largest first: (nanoseconds, name).
TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def label(series: Series) -> str:
    """Return the series' name for a person: "driver → stack", or "delay, softirq" for NAPI."""
    if series.kind == "napi" and series.context is not None:
        name = series.layer.removesuffix(f"-{series.context}")
        return f"{name}, {CONTEXTS.get(series.context, series.context)}"
    if series.kind == "entry":
        return "since first entry"
    if series.kind == "arrival":
        return series.layer
    return f"{series.from_point} → {series.to_point}"


def about(series: Series) -> str:
    """Return a clause that says what the interval holds; empty where the points say it all."""
    if series.kind == "entry":
        return "this path and what was before: the sender, or another trip through the stack"
    clause = LAYERS.get((series.from_point, series.to_point), "")
    if series.work is not None and series.histogram.count:
        each = series.work / series.histogram.count
        clause += f", {number(each, _decimals(each))} packets each on average"
    return clause


def number(value: float | None, digits: int = 0, space: str = " ") -> str:
    """Return a number with its thousands apart by `space`; a dash for None."""
    if value is None:
        return ABSENT
    return f"{value:,.{digits}f}".replace(",", space).replace("-", "−")


def at_rate(summary: LatencySummary | LayeringSummary) -> str:
    """Return what a summary is of, its title: the traffic and its rate."""
    return f"{summary.traffic}, {number(summary.rate)} packets/s"


def share(part: float | None, digits: int = 1, sign: bool = False) -> str:
    """Return a share of 1 in per cent, never rounded to 0.0; a dash for None."""
    if part is None:
        return ABSENT
    if 0 < abs(part) < 10 ** -(digits + 2) / 2 and not sign:
        digits = _leading(part)
    figure = f"{100 * part:{'+' if sign else ''}.{digits}f}".replace("-", "−")
    return f"{figure}{FIXED_SPACE}%"


def signed(value: float, digits: int = 0, space: str = " ") -> str:
    """Return a number with its sign always written."""
    return ("+" if value > 0 else "") + number(value, digits, space)


def small_share(part: float | None) -> str:
    """Return a share in per cent with digits enough for two that matter: 0.012 %."""
    if part is None:
        return ABSENT
    if part == 0:
        return f"0{FIXED_SPACE}%"
    return share(part, min(max(_leading(part) + 1, 0), 6))


def _leading(part: float) -> int:
    """Decimals needed to show the first digit of a share in per cent; below 0 for 10 % and more."""
    return -math.floor(math.log10(abs(100 * part)))


def quantity(value: float | None, unit: str, space: str = NARROW_SPACE) -> str:
    """Return a value with its unit, three digits that matter: 31.2 µs, 4 210 instructions."""
    if value is None:
        return ABSENT
    if unit != "ns":
        return f"{number(value, 0, space)} {unit}"
    for step, name in TIME_UNITS:
        if abs(value) >= step or step == 1:
            scaled = value / step
            digits = 0 if step == 1 else _decimals(scaled)
            return f"{number(scaled, digits, space)}{space}{name}"
    raise AssertionError("the last unit takes every value")


@dataclass(frozen=True)
class Scale:
    """How the values of one table are written: divided by `step`, in `name`."""

    step: int
    name: str

    def text(self, value: float | None, space: str = " ") -> str:
        """Return a value without its unit, three digits that matter; a dash for None."""
        if value is None:
            return ABSENT
        scaled = value / self.step
        whole = self.name in ("ns", "instructions") or scaled == int(scaled)
        return number(scaled, 0 if whole else _decimals(scaled), space)


def slowest(histogram: Histogram, text: Callable[[float | None], str]) -> str:
    """Return the maximum as `text` writes it, or its bound where no more is known."""
    return f"{'≤ ' if histogram.bounded and histogram.buckets else ''}{text(histogram.maximum)}"


def scale(unit: str, largest: int) -> Scale:
    """Return one scale for a table whose largest value is `largest`."""
    if unit != "ns" or largest < 100_000:
        return Scale(1, unit)
    return Scale(1_000, "µs") if largest < 10_000_000_000 else Scale(1_000_000, "ms")


def _decimals(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def seconds(value: float) -> str:
    """Return a wall time in words a person reads at once: 3.1 s, 4 min 12 s."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"


def joined(parts: list[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
