# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark of the patches: its rows, its script, and reading what tools print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skblab.bench import measure, plan, readers
from skblab.bench.kernels import alternatives, patches
from skblab.bench.measure import Line
from skblab.lab import paths
from skblab.lab.kernel.lines import DEFAULT
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
    assert every[-2:] == ["table-off", "table-on"]


@pytest.mark.parametrize("text", ["table", "=x", "Table=/tmp", "a-b=/tmp"])
def test_alternatives_need_a_name_and_a_folder(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=FOLDER"):
        alternatives([text])


def test_alternatives_need_a_finished_kernel(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no finished kernel"):
        alternatives([f"table={tmp_path}"])


def test_a_patch_of_the_users_own_needs_no_folder_until_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "tree", lambda: tmp_path)
    assert patches(DEFAULT) == {}
    folder = tmp_path / "patches" / "v6.12" / "alternatives"
    folder.mkdir(parents=True)
    (folder / "mine.patch").write_text("")
    assert patches(DEFAULT) == {"mine": folder / "mine.patch"}


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


def test_what_the_kernels_histograms_have_to_hold() -> None:
    assert readers.stamps_expected(SENT) == {
        # What is forwarded comes in twice, and is dropped in the sink's stack, as the tester's is.
        "entered": 10 + 2 * 20 + 30,
        "in stack": 10 + 2 * 20 + 30,
        **dict.fromkeys(("in ip", "in route"), 20 + 30),
        **{f"forward {name}": 20 for name in ("forward", "output", "queue", "xmit", "done")},
        "forward total": 20,
        **{f"receive {name}": 30 for name in ("local", "transport", "socket", "wake", "user")},
        "receive total": 30,
    }
    assert readers.stamps_expected({"tester": 3}) == {"entered": 3, "in stack": 3}


def test_what_our_probe_by_hooks_has_to_see() -> None:
    seen = readers.paths_expected(SENT)
    # Of whole paths alone.
    assert (seen["forward stack"], seen["receive stack"], seen["receive total"]) == (20, 30, 30)
    assert "in stack" not in seen
    assert readers.paths_expected({"tester": 3}) == {}


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


def test_runs_of_our_own_programs_only() -> None:
    programs = [{"name": "on_poll", "run_cnt": 7}, {"name": "sd_fw", "run_cnt": 9}, {"id": 1}]
    assert readers.runs(json.dumps(programs)) == {"runs": 7}


COUNTS = "# count <what> <packets>\ncount entered {}\ncount sent 0\ncount dropped 0\n"
POLLS = "sum napi delay 6 1.000\nsum napi poll 7 9.000\n"


def test_the_kernels_own_histograms() -> None:
    text = COUNTS.format(23) + "sum in ip 20 123.456\nbucket in ip 1.000 2.000 20\n" + POLLS
    # Those of polls have a switch of their own.
    assert readers.debugfs(text) == {"entered": 23, "in ip": 20}
    assert readers.polls(text) == {"runs": 7}


def test_stamps_that_are_off_count_nothing_and_say_so() -> None:
    assert readers.debugfs(COUNTS.format(0) + POLLS) == {}
    with pytest.raises(SkblabError, match="histograms are not as expected"):
        readers.debugfs("")


def test_pathlat_by_the_kernels_histograms() -> None:
    forward = {"path": "forward", "layers": [{"to": "xmit", "count": 4}], "path_time": {"count": 3}}
    empty = {"path": "send", "layers": [], "path_time": {"count": 0}}
    document: dict[str, object] = {
        "paths": [forward, empty],
        "in": {"layers": [{"to": "stack", "count": 9}]},
        "histograms": {"entered": 10, "stale": 0},
    }
    seen = {"forward xmit": 4, "forward total": 3, "in stack": 9, "entered": 10}
    assert readers.pathlat(json.dumps(document)) == seen
    # As the hooks have them.
    document |= {"in": None, "histograms": None}
    assert readers.pathlat(json.dumps(document)) == {"forward xmit": 4, "forward total": 3}


def _faults(tmp_path: Path, row: str, text: str, packets: int) -> list[str]:
    (tmp_path / f"{row}-0-1.txt").write_text(text)
    found = measure.Found()
    rows = plan.choose([row])
    output = f"{row} 1 tester 4 {packets} {packets} 1\n"
    measure.read(output, [one for one in rows if one.name == row], 0, tmp_path, found)
    (proof,) = found.proofs
    return proof.faults()


def test_rows_prove_themselves_by_the_histograms(tmp_path: Path) -> None:
    counted = COUNTS.format(5) + "sum in stack 5 10.000\n"
    for row in ("on", "late"):
        assert _faults(tmp_path, row, counted, 5) == []
        assert _faults(tmp_path, row, COUNTS.format(5), 5) == ["in stack: saw 0 of 5 packets"]
    assert _faults(tmp_path, "off", COUNTS.format(0), 5) == []
    assert _faults(tmp_path, "off", counted, 5) == [
        "entered: saw 5 of 0 packets",
        "in stack: saw 5 of 0 packets",
    ]


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
