# SPDX-License-Identifier: GPL-2.0-or-later
"""What skblab wrote, held to results-schema/: it fits, and the same with a fault in it does not."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema

FOLDER = Path(__file__).parents[2] / "results-schema"
# Files of a run's folder that have a schema of their own; those in logs/ say theirs.
NAMED = {"run", "cost", "bench", "functions"}
# What tools print beyond what is read of it: the schema says nothing of these, nor of what is in
# them. Anything else that a tool prints has to be described.
UNSAID = {
    "pathlat": {"seconds", "ifindex", "polls"},
    "traffic-sender": {
        *("to", "asked", "attempted", "errors", "payload_bytes", "frame_bytes", "flows", "run"),
        *("rate_asked", "seconds", "stopped_by", "sizes", "clipped", "frame_overhead", "seed"),
        *("transmission", "batch", "segment", "intervals", "rate_planned", "process"),
    },
    "traffic-receiver": {
        *("bind", "run", "bytes", "reordered_in_flow", "foreign.short", "foreign.magic"),
        *("foreign.version", "foreign.other_run", "flows", "socket", "seconds", "stopped_by"),
        *("transmission", "foreign.other_transmission", "process"),
    },
}
# What stands where only something else may.
WRONG = [["not this"]]


@functools.cache
def schema(name: str) -> jsonschema.Draft202012Validator:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(
        document, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def fits(name: str, document: dict[str, Any]) -> None:
    """Fail unless a schema takes a real document, and refuses it with any one fault."""
    validator = schema(name)
    validator.validate(document)
    # The first of each list, as they are alike: seconds for minutes, where a list may be so short.
    short = _firsts(document)
    least = cast(dict[str, Any], short) if validator.is_valid(short) else document
    taken = [fault for fault, damaged in faults(least) if validator.is_valid(damaged)]
    unsaid = UNSAID.get(name, set())
    taken = [key for key in taken if not {key, key.partition(".")[0]} & unsaid]
    assert taken == [], f"the schema {name} takes a document with these faults"


def faults(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the document with each value that it has turned into one of another kind.

    Of a list the first, as they are alike.
    """
    for path in _paths(document):
        damaged = copy.deepcopy(document)
        place: Any = damaged
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = WRONG
        yield ".".join(map(str, path)), damaged


def _firsts(value: object) -> object:
    """Return a document without all but the first of each of its lists."""
    if isinstance(value, dict):
        return {key: _firsts(part) for key, part in value.items()}
    return [_firsts(part) for part in value[:1]] if isinstance(value, list) else value


def _paths(value: object) -> Iterator[tuple[str | int, ...]]:
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value[:1]))
    for key, part in inside:
        yield (key,)
        for rest in _paths(part):
            yield (key, *rest)


def folder_fits(path: Path) -> set[str]:
    """Hold all of a run's folder to its schemas; return the names of those it has documents of."""
    found = {"journal-event"}
    for line in (path / "journal.jsonl").read_text().splitlines():
        schema("journal-event").validate(json.loads(line))
    # The user's own file of hosts is there as it was read: its form is that of hostsfile.py.
    files = {*path.glob("*.json"), *(path / "logs").glob("*.json")} - {path / "hosts.json"}
    for file in sorted(files):
        document = json.loads(file.read_text())
        name = file.stem if file.stem in NAMED else said(document)
        if name == "script":
            # A file is of one of those that the schema has together.
            name, document = "scripts", {"schema": "skblab.scripts/1", "scripts": [document]}
        fits(name, document)
        found.add(name)
    assert "run" in found
    return found


def said(document: dict[str, Any]) -> str:
    """Return the schema that a document names as its own: skblab.traffic/1 for one."""
    name = str(document["schema"]).removeprefix("skblab.").partition("/")[0]
    return {"send": "traffic-sender", "receive": "traffic-receiver"}.get(
        document.get("role", ""), name
    )
