# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark of the patches: its rows, its script, and reading what tools print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skblab.bench import measure, plan, readers
from skblab.bench.kernels import alternatives
from skblab.bench.measure import Line
from skblab_analysis.base.errors import SkblabError, UsageError

SENT = {"tester": 10, "forward": 20, "queue": 30, "read": 30}


def test_all_rows_by_default_and_names_are_unique() -> None:
    rows = plan.choose([])
    assert rows == plan.ROWS
    assert len({row.name for row in rows}) == len(rows)
    assert plan.kernels(rows) == [plan.PLAIN, plan.OFF, plan.PATCHED]


def test_a_row_brings_what_it_is_compared_with() -> None:
    assert [row.name for row in plan.choose(["systemtap"])] == ["unpatched", "systemtap"]
    assert [row.name for row in plan.choose(["napi-sample"])] == ["unpatched", "off", "napi-sample"]


def test_an_unknown_row_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="--rows bfp: no such row; known are: unpatched, "):
        plan.choose(["bfp"])


def test_alternatives_make_rows_of_their_own() -> None:
    names = [row.name for row in plan.choose(["table-on"], ["table"])]
    assert names == ["unpatched", "table-on"]
    assert plan.kernels(plan.choose(["table-on"], ["table"])) == ["plain", "table"]
    every = [row.name for row in plan.choose([], ["table"])]
    assert every[-3:] == ["table-off", "table-on", "table-histograms"]


@pytest.mark.parametrize("text", ["table", "=x", "Table=/tmp", "a-b=/tmp"])
def test_alternatives_need_a_name_and_a_folder(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=FOLDER"):
        alternatives([text])


def test_alternatives_need_a_finished_kernel(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no finished kernel"):
        alternatives([f"table={tmp_path}"])


def test_the_script_runs_every_row_and_every_other_round_backwards() -> None:
    rows = plan.choose(["bpf-map"])
    lines = measure.script(rows, 2, 500, 2).splitlines()
    runs = [line for line in lines if line.startswith(("run ", "repeat="))]
    assert runs == [
        "repeat=1",
        "run unpatched none none none tester forward receive",
        "run bpf-map none bpf:path hists tester forward receive",
        "repeat=2",
        "run bpf-map none bpf:path hists tester forward receive",
        "run unpatched none none none tester forward receive",
    ]
    assert "boot=2" in lines
    assert "repeat=1\nrun bpf-map" in measure.script(rows, 1, 500, 1)


def test_lines() -> None:
    line = Line.parse("bpf-map 1 forward 6 500 499 123000")
    assert line == Line("", "bpf-map", 1, "forward", 6, 500, 499, 123000)
    assert line.trial(3).instructions == 123000
    assert Line.parse("proof on 2 read 4 5 5 9").aside == "proof"


@pytest.mark.parametrize("text", ["", "x", "on 1 forward 5 1 1 1", "on 1 away 4 1 1 1", "a " * 7])
def test_lines_that_are_none(text: str) -> None:
    with pytest.raises(SkblabError, match="the benchmark printed"):
        Line.parse(text)


def test_what_has_to_be_seen() -> None:
    seen = readers.tool_expected(SENT)
    # The sink's own packets reach its stack, too.
    assert seen["stack"] == 10 + 2 * 20 + 30
    assert seen["ip"] == seen["route"] == 20 + 30
    assert seen["transport"] == seen["wake"] == seen["user"] == 30
    assert seen["forward"] == seen["xmit"] == seen["done"] == 20
    assert seen["total"] == 50
    assert readers.tool_expected({"tester": 3}) == {"stack": 3}
    assert readers.ends_expected(SENT) == {
        "forward transmitted": 20,
        "receive delivered": 30,
        "receive dropped": 30,
    }
    assert readers.stamps_expected(SENT)["forward total"] == 20
    assert "forward total" not in readers.witness_expected(SENT)


BPFTRACE = """Attaching 27 probes...
ready

@done:
[256, 512)          2000 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[512, 1K)             35 |                                                    |

@ip:
(..., 0)               1 |                                                    |
[1]                    4 |@@@                                                 |
[2, 4)                 3 |@@@                                                 |
"""


def test_bpftrace() -> None:
    assert readers.bpftrace(BPFTRACE) == {"done": 2035, "ip": 8}
    assert readers.bpftrace("") == {}


def test_systemtap() -> None:
    text = "ready\nstack 16000\nvalue |-------- count\n  64 |@@@ 15998\n\nip 8000\n"
    assert readers.systemtap(text) == {"stack": 16000, "ip": 8000}


def dump(name: str, value: object) -> str:
    formatted = {"key": 0, "value": {f".bss.{name}": [{name: value}]}}
    return json.dumps([{"key": ["0x00"], "value": ["0x00"], "formatted": formatted}])


def test_bpf_maps() -> None:
    def hist(count: int) -> dict[str, object]:
        return {"sum": 7, "buckets": [0, count, 1]}

    cpus = [[hist(4)] * len(readers.TOOL_POINTS), [hist(-1)] * len(readers.TOOL_POINTS)]
    assert readers.path_map(dump("hists", cpus)) == dict.fromkeys(readers.TOOL_POINTS, 5)
    with pytest.raises(SkblabError, match="bpftool's dump of hists is not as expected"):
        readers.path_map("{}")


def test_the_witness() -> None:
    ends = [[0, 5, 0, 0], [0, 0, 6, 0], [0] * 4, [0] * 4]
    points = [[1] * 16, [0] * 16, [0] * 16, [0] * 16]
    seen = readers.witness(f"{dump('ends', ends)}\n{dump('points', points)}\n")
    assert seen["receive dropped"] == 5
    assert seen["forward transmitted"] == 6
    assert "receive driver" not in seen
    assert seen["receive stack"] == 1
    with pytest.raises(SkblabError, match="left 1 lines"):
        readers.witness("[]\n")


def test_runs_of_our_own_programs_only() -> None:
    programs = [{"name": "on_sample", "run_cnt": 7}, {"name": "sd_fw", "run_cnt": 9}, {"id": 1}]
    assert readers.runs(json.dumps(programs)) == {"runs": 7}


def test_the_kernels_own_histograms() -> None:
    text = "# comment\ncount entered 3\nend forward transmitted 20\nend send dropped 0\n"
    text += "sum forward ip 20 123.456\nbucket forward ip 1 2 20\n"
    # Those of polls have a switch of their own, and may be from an earlier row.
    text += "sum napi delay 6 1.000\nsum napi poll 7 9.000\n"
    assert readers.debugfs(text) == {"forward transmitted": 20, "forward ip": 20}
    assert readers.polls(text) == {"runs": 7}


def test_pathlat_with_intervals_too_long_to_place() -> None:
    path = {
        "path": "receive",
        "overflow": 3,
        "negative": 0,
        "layers": [{"to": "stack", "count": 7}, {"to": "user", "count": 7}],
        "path_time": {"count": 7},
    }
    seen = readers.pathlat(json.dumps({"paths": [path]}))
    assert seen == {"receive stack": 10, "receive user": 10, "receive total": 10}


def test_throughput_pairs() -> None:
    (pair,) = measure.wall_pairs("4 1 off 1000000 1250000 100000\n")
    assert (pair.off_kpps, pair.on_kpps) == (100, 80)
    with pytest.raises(SkblabError, match="the throughput test printed"):
        measure.wall_pairs("4 1 off 0 1 1\n")
