# SPDX-License-Identifier: GPL-2.0-or-later
"""What a row's reader left, as packets by point; and how many there had to be."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.scripts import ScriptDocument

# As probes/bench/path.bpf.c counts them.
TOOL_POINTS = (
    *("stack", "ip", "route", "local", "transport", "socket", "wake", "user"),
    *("forward", "output", "queue", "xmit", "done", "total"),
)

_IN = ("stack", "ip", "route")
_INTO_QUEUE = ("local", "transport", "socket")
_OUT_OF_QUEUE = ("wake", "user", "total")
_THROUGH = ("forward", "output", "queue", "xmit", "done", "total")

Sent = Mapping[str, int]


def tool_expected(sent: Sent) -> dict[str, int]:
    """Return what a tool that hooks functions has to see when `sent` packets went by part.

    It sees the sink's receive path as well: a packet there reaches the stack and is dropped.
    """
    count: Counter[str] = Counter()
    count["stack"] += sent.get("tester", 0) + sent.get("forward", 0)
    for points, part in _ways():
        for point in points:
            count[point] += sent.get(part, 0)
    return _seen(count)


def stamps_expected(sent: Sent) -> dict[str, int]:
    """Return the same for the kernel's own histograms, by path and point, and of paths begun."""
    count: Counter[str] = Counter()
    for path, points, part in (
        ("forward", _THROUGH, "forward"),
        ("receive", _INTO_QUEUE, "queue"),
        ("receive", _OUT_OF_QUEUE, "read"),
    ):
        for point in points:
            count[f"{path} {point}"] += sent.get(part, 0)
    coming = sent.get("forward", 0) + sent.get("queue", 0)
    count["in ip"] = count["in route"] = coming
    # A packet begins anew where it comes to the sink, is seen in the stack there, and dropped.
    coming += sent.get("forward", 0) + sent.get("tester", 0)
    count["in stack"] = count["entered"] = coming
    return _seen(count)


def paths_expected(sent: Sent) -> dict[str, int]:
    """Return the same for our probe by hooks: whole paths, of packets delivered or sent on only."""
    count: Counter[str] = Counter()
    for points, part in _ways():
        path = "forward" if part == "forward" else "receive"
        for point in points:
            count[f"{path} {point}"] += sent.get(part, 0)
    return _seen(count)


def script_expected(sent: Sent) -> dict[str, int]:
    """Return what the scripts of both paths have to see.

    They do not know how a packet will end: until its route is known they count those of the other
    path as well, and those that the sink drops.
    """
    expected = paths_expected(sent)
    coming = sent.get("forward", 0) + sent.get("queue", 0)
    for path in ("receive", "forward"):
        expected |= {f"{path} {point}": coming for point in ("ip", "route")}
        expected[f"{path} stack"] = coming + sent.get("forward", 0) + sent.get("tester", 0)
    return expected


def _ways() -> Iterator[tuple[tuple[str, ...], str]]:
    yield (*_IN, *_THROUGH), "forward"
    yield (*_IN, *_INTO_QUEUE), "queue"
    yield _OUT_OF_QUEUE, "read"


def _seen(count: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in count.items() if value}


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
    """Return packets by point and in total from pathlat's document, and what the kernel counted.

    Packets that it took out of the histograms and counted instead were seen, too: the clock of a
    guest that idles in exact mode may jump seconds ahead, further than an interval of the hooks
    can tell.
    """
    document = json.loads(text)
    # Of the kernel's own histograms alone.
    counts, coming = document.get("histograms") or {}, document.get("in") or {"layers": []}
    found = {
        f"{path['path']} {name}": count + path.get("overflow", 0) + path.get("negative", 0)
        for path in document["paths"]
        for name, count in [
            *((layer["to"], layer["count"]) for layer in path["layers"]),
            ("total", path["path_time"]["count"]),
        ]
    }
    found |= {f"in {layer['to']}": layer["count"] for layer in coming["layers"]}
    return _seen(found | counts)


def script(document: ScriptDocument) -> dict[str, int]:
    """Return packets by point and in total from a script's document, as from pathlat's."""
    aside = sum(document.left_out.get(name, 0) for name in ("overflow", "negative"))
    layers = [*((layer.to_point, layer.count) for layer in document.layers)]
    if document.path_time is not None:
        layers.append(("total", document.path_time.count))
    return {f"{document.script} {name}": count + aside for name, count in layers if count + aside}


def debugfs(text: str) -> dict[str, int]:
    """Return packets by path and point from the kernel's own histograms, and what else it counted.

    Those of polls have a switch of their own.
    """
    counts: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["count"] and len(words) == 3:
            counts[words[1]] = int(words[2])
    if "entered" not in counts:
        raise SkblabError(f"the kernel's histograms are not as expected: {one_line(text, 80)}")
    found = _packets(text)
    return _seen(counts | {name: found[name] for name in found if not name.startswith("napi ")})


def polls(text: str) -> dict[str, int]:
    """Return how many NAPI polls the kernel's own histograms counted."""
    return {"runs": _packets(text).get("napi poll", 0)}


def _packets(text: str) -> dict[str, int]:
    seen: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["sum"] and len(words) >= 4:
            seen[f"{words[1]} {words[2]}"] = int(words[3])
    return seen


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
