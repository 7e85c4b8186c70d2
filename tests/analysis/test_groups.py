# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups of packets in the probe's document: they hold each packet once, and have their tables."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
import synthetic_run
from rich.console import Console

from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.layers import series, tables

TIMES = ("path", "layers", "path_time", "since_entry")


def group(name: str, document: dict[str, Any]) -> dict[str, Any]:
    paths = [path for path in document["paths"] if path["path_time"]["count"]]
    return {
        "by": "cpu",
        "name": name,
        "paths": [{key: path[key] for key in TIMES} for path in paths],
    }


def whole(**more: object) -> dict[str, Any]:
    """A document of 600 packets on one CPU."""
    document = synthetic_run.pathlat(600)
    return document | {"groups": [group("3", document)], "groups_others": 0} | more


def read(document: dict[str, Any]) -> PathlatDocument:
    return parse(PathlatDocument, json.dumps(document), "the document")


def shown(document: PathlatDocument) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    for table in tables.of_series(series.from_document(0, "ns", document), document):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells(text: str, beginning: str) -> list[str]:
    """The cells of the first line that begins so; numbers have single spaces in them."""
    line = next(line for line in text.splitlines() if line.startswith(beginning))
    return re.split(r" {2,}", line.strip())


def test_each_path_has_a_table_of_its_groups() -> None:
    said = shown(read(whole()))
    assert said.index("Where a packet's time goes") < said.index("receive by cpu")
    assert "send by cpu" in said and "forward by cpu" not in said
    row = cells(said, "3 ")
    assert row[:3] == ["3", "600", "100.0%"] and row[7].startswith("wake (")
    # The same figures as in the path's own table: mean, median, p99 and the slowest.
    path = cells(said, "whole path")
    assert row[3:7] == [path[2], path[3], path[5], path[7]]


def test_the_share_and_what_is_in_no_group() -> None:
    half = synthetic_run.pathlat(300)
    document = read(whole(groups=[group("0", half)], groups_others=600))
    assert cells(shown(document), "0 ")[:3] == ["0", "300", "50.0%"]


def test_none_are_asked_for() -> None:
    assert " by cpu" not in shown(read(whole(groups=None)))


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"groups_others": 1}, "the groups hold 1200 packets and 1 are in none, of 1200"),
        ({"groups": []}, "the groups hold 0 packets"),
        ({"groups": [whole()["groups"][0]] * 2}, "a group is given twice"),
        ({"groups": [{"by": "socket", "name": "1", "paths": []}]}, "groups.0.by"),
    ],
)
def test_groups_that_contradict_the_paths_are_refused(
    more: dict[str, object], complaint: str
) -> None:
    with pytest.raises(RecordError) as error:
        read(whole(**more))
    assert complaint in str(error.value)
