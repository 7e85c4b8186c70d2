# SPDX-License-Identifier: GPL-2.0-or-later
"""What paths, layers and contexts are called, for a reader who knows the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from skblab_analysis.base.words import decimals, number
from skblab_analysis.formats.pathlat import PathName
from skblab_analysis.layers.series import Series

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
    ("driver", "driver"): "in a tunnel or bridge, until back in the stack",
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

# And of path `in`, where no other path follows.
COMING_IN = "the time of packets that came in"

CONTEXTS = {
    "softirq": "softirq",
    "ksoftirqd": "ksoftirqd",
    "kthread": "NAPI thread",
    "busy_poll": "busy poll",
}


def whose(found: Sequence[Series]) -> str:
    """Return whose time these are, as titles have it."""
    return next((PATHS[series.path] for series in found if series.path in PATHS), COMING_IN)


def label(series: Series) -> str:
    """Return the series' name for a person: "driver → stack", or "delay, softirq" for NAPI."""
    if series.kind == "napi" and series.context is not None:
        name = series.layer.removesuffix(f"-{series.context}")
        return f"{name}, {CONTEXTS.get(series.context, series.context)}"
    if series.kind == "since_entry":
        return "since first entry"
    if series.kind == "arrival":
        return series.layer
    return f"{series.from_point} → {series.to_point}"


def about(series: Series) -> str:
    """Return a clause that says what the interval holds; empty where the points say it all."""
    if series.kind == "since_entry":
        return "this path and what was before: the sender, or another trip through the stack"
    clause = LAYERS.get((series.from_point, series.to_point), "")
    if series.work is not None and series.histogram.count:
        each = series.work / series.histogram.count
        clause += f", {number(each, decimals(each))} packets each on average"
    return clause
