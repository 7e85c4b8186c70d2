# SPDX-License-Identifier: GPL-2.0-or-later
"""What a row's reader left, as packets by point; and how many there had to be."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.scripts import ScriptDocument

# As probes/bench/path.bpf.c counts them.
TOOL_POINTS = (
    *("stack", "ip", "route", "local", "transport", "socket", "wake", "user"),
    *("forward", "output", "queue", "xmit", "done", "total"),
)
# As the kernel does: bits of a sample's mask.
STAMP_POINTS = (
    *("driver", "send", "stack", "ip", "route", "local", "transport", "socket", "wake", "user"),
    *("forward", "output", "queue", "dequeue", "xmit", "done"),
)
PATHS = ("receive", "forward", "send")
ENDS = ("delivered", "dropped", "transmitted", "consumed")

_INTO_QUEUE = ("stack", "ip", "route", "local", "transport", "socket")
_OUT_OF_QUEUE = ("wake", "user", "total")
_THROUGH = ("stack", "ip", "route", "forward", "output", "queue", "xmit", "done", "total")

Sent = Mapping[str, int]


def tool_expected(sent: Sent) -> dict[str, int]:
    """Return what a tool that hooks functions has to see when `sent` packets went by part.

    It sees the sink's receive path as well: a packet there reaches the stack and is dropped.
    """
    count: Counter[str] = Counter()
    count["stack"] += sent.get("tester", 0) + sent.get("forward", 0)
    for points, part in ((_THROUGH, "forward"), (_INTO_QUEUE, "queue"), (_OUT_OF_QUEUE, "read")):
        for point in points:
            count[point] += sent.get(part, 0)
    return {name: value for name, value in count.items() if value}


def stamps_expected(sent: Sent) -> dict[str, int]:
    """Return the same for the kernel's own samples: of packets delivered or sent on only."""
    count: Counter[str] = Counter()
    for point in _THROUGH:
        count[f"forward {point}"] += sent.get("forward", 0)
    for points, part in ((_INTO_QUEUE, "queue"), (_OUT_OF_QUEUE, "read")):
        for point in points:
            count[f"receive {point}"] += sent.get(part, 0)
    return {name: value for name, value in count.items() if value}


def ends_expected(sent: Sent) -> dict[str, int]:
    """Return how many samples there have to be, by path and end: the sink drops its packets."""
    ends = {
        "forward transmitted": sent.get("forward", 0),
        "receive delivered": sent.get("read", 0),
        "receive dropped": sent.get("tester", 0) + sent.get("forward", 0),
    }
    return {name: value for name, value in ends.items() if value}


def script_expected(sent: Sent, *, hooks: bool) -> dict[str, int]:
    """Return what the scripts of both paths have to see.

    Those that hook functions do not know how a packet will end: until its route is known they count
    those of the other path as well, and those that the sink drops.
    """
    expected = stamps_expected(sent)
    if hooks:
        coming = sent.get("forward", 0) + sent.get("queue", 0)
        for path in ("receive", "forward"):
            expected |= {f"{path} {point}": coming for point in ("ip", "route")}
            expected[f"{path} stack"] = coming + sent.get("forward", 0) + sent.get("tester", 0)
    return expected


def witness_expected(sent: Sent) -> dict[str, int]:
    """Return what the counting program has to see: ends, and points but no total."""
    wanted = stamps_expected(sent)
    points = {point: wanted[point] for point in wanted if not point.endswith(" total")}
    return {**ends_expected(sent), **points}


def bpftrace(text: str) -> dict[str, int]:
    """Return the packets of each histogram that bpftrace printed."""
    seen: dict[str, int] = {}
    name = ""
    for line in text.splitlines():
        if found := re.match(r"@(\w+):", line):
            name = found[1]
        elif name and (found := re.match(r"[\[(].*?[\])]\s+(\d+)\s*\|", line)):
            seen[name] = seen.get(name, 0) + int(found[1])
    return seen


def systemtap(text: str) -> dict[str, int]:
    """Return the packets of each statistic that path.stp printed."""
    pairs = (re.fullmatch(r"([a-z]+) (\d+)", line) for line in text.splitlines())
    return {match[1]: int(match[2]) for match in pairs if match}


def path_map(text: str) -> dict[str, int]:
    """Return the packets of each histogram of path.bpf.c."""
    by_cpu = _variable(text, "hists")
    return _sum((name, cpu[i]) for cpu in by_cpu for i, name in enumerate(TOOL_POINTS))


def sample_map(text: str) -> dict[str, int]:
    """Return the packets of each histogram of sample-hist.bpf.c."""
    names = [*STAMP_POINTS, "total"]
    return _sum(
        (f"{path} {name}", cpu[p][i])
        for cpu in _variable(text, "hists")
        for p, path in enumerate(PATHS)
        for i, name in enumerate(names)
    )


def witness(text: str) -> dict[str, int]:
    """Return samples by end and packets by point, as sample-count.bpf.c counted them."""
    lines = [line for line in text.splitlines() if line]
    if len(lines) != 2:
        raise SkblabError(f"the witness left {len(lines)} lines, expected 2")
    ends, points = (
        _variable(line, name) for line, name in zip(lines, ("ends", "points"), strict=True)
    )
    found = {
        f"{path} {end}": ends[p][e] for p, path in enumerate(PATHS) for e, end in enumerate(ENDS)
    } | {
        f"{path} {point}": points[p][i]
        for p, path in enumerate(PATHS)
        for i, point in enumerate(STAMP_POINTS)
        # Where a path begins there is no interval; the others tell.
        if point not in ("driver", "send")
    }
    return {name: value for name, value in found.items() if value}


def runs(text: str) -> dict[str, int]:
    """Return how often the benchmark's own BPF program ran, from bpftool's list."""
    programs = json.loads(text)
    return {
        "runs": sum(
            program.get("run_cnt", 0)
            for program in programs
            if program.get("name", "").startswith("on_")
        )
    }


def pathlat(text: str) -> dict[str, int]:
    """Return packets by point and in total from pathlat's document.

    Packets that it took out of the histograms and counted instead were seen, too: the clock of a
    guest that idles in exact mode may jump seconds ahead, further than an interval can tell.
    """
    found = {
        f"{path['path']} {name}": count + path.get("overflow", 0) + path.get("negative", 0)
        for path in json.loads(text)["paths"]
        for name, count in [
            *((layer["to"], layer["count"]) for layer in path["layers"]),
            ("total", path["path_time"]["count"]),
        ]
    }
    return {name: count for name, count in found.items() if count}


def script(document: ScriptDocument) -> dict[str, int]:
    """Return packets by point and in total from a script's document, as from pathlat's."""
    aside = sum(document.left_out.get(name, 0) for name in ("overflow", "negative"))
    layers = [*((layer.to_point, layer.count) for layer in document.layers)]
    if document.path_time is not None:
        layers.append(("total", document.path_time.count))
    return {f"{document.script} {name}": count + aside for name, count in layers if count + aside}


def debugfs(text: str) -> dict[str, int]:
    """Return packets by point and by end from the kernel's own histograms."""
    return {name: number for name, number in _sums(text).items() if not name.startswith("napi ")}


def _sums(text: str) -> dict[str, int]:
    seen: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["sum"], ["end"]) and len(words) >= 4 and int(words[3]):
            seen[f"{words[1]} {words[2]}"] = int(words[3])
    return seen


def polls(text: str) -> dict[str, int]:
    """Return how many NAPI polls the kernel's own histograms counted."""
    return {"runs": _sums(text).get("napi poll", 0)}


def _variable(text: str, name: str) -> Any:  # noqa: ANN401  # bpftool's JSON
    """Return a global variable of a BPF object from bpftool's dump of its map."""
    try:
        (element,) = json.loads(text)
        value = element.get("formatted", element)["value"]
        (section,) = value.values()
        return next(variable[name] for variable in section if name in variable)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise SkblabError(
            f"bpftool's dump of {name} is not as expected: {one_line(text, 80)}"
        ) from error


def _sum(histograms: Iterable[tuple[str, Mapping[str, list[int]]]]) -> dict[str, int]:
    seen: Counter[str] = Counter()
    for name, histogram in histograms:
        seen[name] += sum(histogram["buckets"])
    return {name: value for name, value in seen.items() if value}
