# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace as a back end: the scripts by hand, but with fine buckets and JSON."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from skblab.lab import paths
from skblab.machine.transport import Transport
from skblab.probe.scripts.figures import COUNTS, Figures
from skblab_analysis.base.errors import SkblabError, understood
from skblab_analysis.base.whole import MOST_COUNTED, whole

NAME = "bpftrace"
FOLDER = "probes/bpftrace"
PACKAGE = "bpftrace"
READY = '"ready\\n"'
# Of a program, in /proc/PID/fdinfo/.
_MISSES = re.compile(r"^recursion_misses:\s+([0-9]{1,15})$", re.MULTILINE)


def text(name: str) -> str:
    """Return a script as it is run here."""
    plain = (paths.tree() / FOLDER / f"{name}.bt").read_text()
    # 2^4 buckets to a power of two, as all our histograms have. By hand that would be pages.
    fine, changed = re.subn(r"( = hist\(.*)\);", r"\1, 4);", plain)
    if not changed:
        raise SkblabError(f"{name}.bt makes no histogram")
    return fine


def command(script: str) -> list[str]:
    """Return the command that runs a script, given its path."""
    return ["bpftrace", "-B", "line", "-f", "json", script]


def bring(transport: Transport, folder: str, name: str) -> list[str]:
    """Bring a script to `folder` there; return the command that runs it."""
    target = f"{folder}/{name}.bt"
    bring = f"cat >{target} <<'END-OF-SCRIPT'\n{text(name)}\nEND-OF-SCRIPT"
    transport.script(bring).check("bringing it")
    return command(target)


def read(lines: Iterable[str], stderr: str) -> Figures:
    """Read what a script printed."""
    # Warnings and errors come as JSON, too. The kernel runs no program within itself: one that an
    # interrupt brings it to meanwhile it counts as missed (kernel/bpf/trampoline.c).
    figures = Figures(missed=sum(map(int, _MISSES.findall(stderr))))
    maps: dict[str, Any] = defaultdict(dict)
    for line in lines:
        if line.strip():
            with understood("what bpftrace said", line, expected="JSON"):
                _take(json.loads(line), maps, figures)
    with understood("what bpftrace counted", ", ".join(maps)):
        _finish(maps, figures)
    return figures


def _take(said: Any, maps: dict[str, Any], figures: Figures) -> None:  # noqa: ANN401  # its JSON
    """Have what one line says."""
    kind, data = said["type"], said.get("data")
    if kind == "lost_events":
        figures.missed += whole(data["events"])
    elif kind == "helper_error":
        figures.missed += 1
    elif kind in ("map", "hist", "stats"):
        for name, value in data.items():
            maps[name.removeprefix("@")] = _times(value, figures) if kind == "hist" else value


def _finish(maps: dict[str, Any], figures: Figures) -> None:
    """Make figures of all maps together."""
    _polls(maps, figures)
    for name in [name.removesuffix("_ns") for name in maps if name.endswith("_ns")]:
        if maps[f"{name}_ns"] and isinstance(maps[f"{name}_ns"], list):
            figures.layer(name, **_whole(maps, name, None))
    for name in COUNTS:
        if isinstance(maps.get(name), int):
            figures.counts[name] = whole(maps[name], MOST_COUNTED)
    figures.dropped = sum(whole(row, MOST_COUNTED) for row in _keyed(maps, "dropped").values())


def _keyed(maps: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a map by key, which is no such map if it is empty."""
    found = maps.get(name)
    return found if isinstance(found, dict) else {}


def _times(rows: Any, figures: Figures) -> Any:  # noqa: ANN401  # bpftrace's JSON
    """Return a histogram, or those by key; empty if one is less than zero: then all are missed.

    Its sum has what is less than zero as well, and its maximum takes that for a large number.
    """
    if isinstance(rows, dict):
        return {key: _times(buckets, figures) for key, buckets in rows.items()}
    if all("min" in row for row in rows):
        return rows
    figures.missed += sum(whole(row["count"]) for row in rows)
    return []


def _polls(maps: dict[str, Any], figures: Figures) -> None:
    for name, ours in (("delay", "delay"), ("again", "delay"), ("poll", "time")):
        if not isinstance(maps.get(f"{name}_ns"), dict):
            continue
        for key, buckets in maps[f"{name}_ns"].items():
            if not buckets:
                continue
            if not all(key in _keyed(maps, table) for table in (name, f"{name}_max")):
                # A first value that an interrupt kept out of one of the maps, or that came
                # between two of them at the end.
                figures.missed += sum(whole(row["count"]) for row in buckets)
                continue
            work = whole(maps["work"].get(key, 0), MOST_COUNTED) if ours == "time" else None
            figures.poll(ours, key.rsplit(",", 1)[-1], work=work, **_whole(maps, name, key))


def _whole(maps: dict[str, Any], name: str, key: str | None) -> dict[str, Any]:
    """Return buckets by lower end, sum and maximum of a histogram."""

    def of(map_name: str) -> Any:  # noqa: ANN401  # bpftrace's JSON
        value = maps[map_name]
        return value if key is None else value[key]

    try:
        buckets = {row["min"]: row["count"] for row in of(f"{name}_ns") if row["count"]}
        return {"buckets": buckets, "total": of(name)["total"], "maximum": of(f"{name}_max")}
    except (KeyError, TypeError) as error:
        raise SkblabError(f"bpftrace printed no whole figure of {name}") from error
