# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions by function on a small scale: they add up, and stamps show where they are."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from exact_figures import hold
from skblab.bench import asked, comparison
from skblab.bench.plan import Row
from skblab.knobs.values import Knobs
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import Kernel, names
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.formats import pprof

pytestmark = [pytest.mark.guest, pytest.mark.slow]

Skblab = Callable[..., CompletedProcess[str]]


def profiled(skblab: Skblab, tmp_path: Path, *words: str, timeout: int = 600) -> dict[str, Any]:
    """Return the document that `skblab profile` prints."""
    ran = skblab(
        *("profile", *words, "--json"), env={"SKBLAB_RESULTS": str(tmp_path)}, timeout=timeout
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_what_stamps_add_when_receiving(skblab: Skblab, stock: Kernel, tmp_path: Path) -> None:
    words = ["bench", "functions", "--row", "on", "--against", "off", "--case", "receive"]
    ran = skblab(
        *(*words, "--packets", "2000", "--built", f"patched={stock.path}", "--json"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    for side in "ab":
        counted = sum(
            function[side] + function[f"{side}_again"] for function in document["functions"]
        )
        assert counted == pytest.approx(document["clock"][side], rel=0.001)
    by_name = {
        function["name"]: (function["a"], function["b"]) for function in document["functions"]
    }
    # Each packet's path ends once, and only where stamps are on.
    assert by_name["__net_path_deliver"][0] == 0
    assert by_name["__net_path_deliver"][1] > 5
    off, on = by_name["ip_rcv_core"]
    assert off == int(off)
    assert off < on < off + 30
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "functions.json").read_text()) == document
    assert "ip_rcv_core+0x" in (folder / "instructions-on.tsv").read_text()


def test_a_profile_of_two_kernels_shows_what_the_series_adds(
    skblab: Skblab, tmp_path: Path
) -> None:
    """The points of forwarding are in these functions, and off each is an instruction or few."""
    words = ("--kernel", "6.12+skblab", "--against", "6.12", "--packets", "2000")
    document = profiled(skblab, tmp_path, *words, timeout=1500)
    assert {side: one["name"] for side, one in document["kernels"].items()} == {
        "a": "6.12",
        "b": "6.12+skblab",
    }
    assert document["kernels"]["a"]["patches"] == [] != document["kernels"]["b"]["patches"]
    by_name = {function["name"]: function for function in document["functions"]}
    for name in ("ip_rcv_core", "__netif_receive_skb_core", "dev_hard_start_xmit"):
        assert by_name[name]["b"] - by_name[name]["a"] == pytest.approx(1, abs=0.01)
    for side in "ab":
        counted = sum(
            function[side] + function[f"{side}_again"] for function in document["functions"]
        )
        assert counted == pytest.approx(document["clock"][side], rel=0.001)


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.3"])
def test_a_profile_of_a_kernel_as_debian_ships_it(
    version: str, skblab: Skblab, tmp_path: Path
) -> None:
    """Nothing of it is built in that a guest needs, and its symbols are in the guest only."""
    words = ("--kernel", f"debian:{version}", "--packets", "5000")
    document = profiled(skblab, tmp_path, *words)
    kernel = document["kernels"]["b"]
    # A record has the name that stands for this kernel alone.
    assert (kernel["name"], kernel["patches"]) == (f"debian:{kernel['release']}", [])
    assert kernel["release"].startswith(f"{version}.")
    by_name = {function["name"]: function for function in document["functions"]}
    # Built in, and of a module.
    for name in ("ip_forward", "ip_rcv_core", "veth_xmit"):
        assert by_name[name]["b"] > 10
    named = sum(one["b"] for one in document["functions"] if one["name"] != "(unknown)")
    assert named > 0.99 * (whole := sum(one["b"] for one in document["functions"]))
    again = sum(one["b_again"] for one in document["functions"])
    assert whole + again == pytest.approx(document["clock"]["b"], rel=0.001)
    # What is said of an old generator is said of that alone, and its packets are copied.
    assert (by_name.get("skb_clone", {"b": 0})["b"] > 10) == (version == "6.1")
    assert len(document["notes"]) == (version == "6.1")


def test_a_profile_of_a_setting_names_the_functions_that_it_costs(
    skblab: Skblab, stock: Kernel, lab: LabRoot, tmp_path: Path
) -> None:
    """Strict reverse path filtering looks the source up, and nothing else gets dearer."""
    document = profiled(skblab, tmp_path, "--set", "rp_filter=1", "--packets", "5000")
    assert document["settings"] == {"b": {"rp_filter": "1"}}
    assert document["kernels"]["a"] == document["kernels"]["b"]
    added = {one["name"]: one["b"] - one["a"] for one in document["functions"]}
    more = document["clock"]["b"] - document["clock"]["a"]
    assert added["__fib_validate_source"] > 50
    whole = sum(added.values())
    again = sum(one["b_again"] - one["a_again"] for one in document["functions"])
    assert more == pytest.approx(whole + again, abs=0.002 * document["clock"]["b"])
    # Of the difference nearly all is in functions that take two more or fewer.
    named = sum(value for value in added.values() if abs(value) >= 2)
    assert named == pytest.approx(whole, rel=0.05)
    figures = {
        "forward": document["clock"]["a"],
        "forward, rp_filter=1": document["clock"]["b"],
        "__fib_validate_source": added["__fib_validate_source"],
        "fib_table_lookup": added["fib_table_lookup"],
    }
    hold("test_bench_functions", figures, stock, lab)


def test_a_profile_of_a_setting_of_the_receiver(
    skblab: Skblab, stock: Kernel, lab: LabRoot, tmp_path: Path
) -> None:
    """Rules in INPUT are matched one by one, in one function."""
    options = ("--case", "receive", "--set", "netfilter=nft-input 10", "--packets", "5000")
    document = profiled(skblab, tmp_path, *options)
    assert document["settings"] == {"b": {"netfilter": "nft-input 10"}}
    assert any("receiver's device has NAPI" in note for note in document["notes"])
    by_name = {one["name"]: one for one in document["functions"]}
    assert by_name["nft_do_chain"]["b"] > 100 > by_name["nft_do_chain"]["a"] == 0
    assert by_name["napi_gro_receive"]["a"] > 10
    figures = {
        "receive": document["clock"]["a"],
        "receive, 10 rules": document["clock"]["b"],
        "nft_do_chain, 10 rules": by_name["nft_do_chain"]["b"],
    }
    hold("test_bench_functions", figures, stock, lab)


@pytest.mark.parametrize("case", ["forward", "receive"])
def test_a_profile_of_two_nodes_says_where_lines_come_from(
    case: str, skblab: Skblab, tmp_path: Path
) -> None:
    words = ("--numa", "--caches", "epyc-7763", "--packets", "1000", "--case", case)
    found = profiled(skblab, tmp_path, *words)["memory"]
    assert found["processor"]["nodes"] == 2
    types = {one["name"]: one for one in found["types"]}
    buffers = types["skbuff_head_cache"]
    own, other = (
        {kind: sum(one[side][kind] for one in found["functions"]) for kind in buffers[side]}
        for side in "ab"
    )
    # By what it executes it is the same packet.
    assert own["accesses"] == pytest.approx(other["accesses"], rel=0.01)
    assert own["passed"] == pytest.approx(0, abs=0.05)
    if case == "forward":
        # All of a packet is on the other node, and nothing else.
        assert buffers["a"]["remote_accesses"] == pytest.approx(0, abs=0.5)
        assert buffers["b"]["remote_accesses"] == pytest.approx(buffers["b"]["accesses"], abs=0.5)
        assert buffers["b"]["accesses"] > 100
        assert other["passed"] == 0
    else:
        # At least an sk_buff's lines, and the packet's head, were written by the other CPU.
        assert 3 < other["passed"] < 20
        assert other["third"] - own["third"] == pytest.approx(other["passed"], abs=4)


def test_a_profile_says_who_calls_the_expensive_function(skblab: Skblab, tmp_path: Path) -> None:
    """Routing looks a source up where it validates it, below the poll of a device."""
    document = profiled(skblab, tmp_path, "--set", "rp_filter=1", "--packets", "2000")
    by_name = {one["name"]: one for one in document["functions"]}
    for side in "ab":
        # Of what the tester alone does not call: the rest is a difference of two.
        for name in ("ip_forward", "ip_rcv_core", "fib_table_lookup", "ip_route_input_slow"):
            assert by_name[name][f"{side}_inclusive"] >= by_name[name][side] - 0.5, name
        slow = by_name["ip_route_input_slow"]
        assert slow[f"{side}_inclusive"] > slow[side] + by_name["fib_table_lookup"][side]
    validate = by_name["__fib_validate_source"]
    assert validate["a_inclusive"] == 0
    assert validate["b_inclusive"] > validate["b"] + by_name["fib_table_lookup"]["a"]
    assert document["notes"] == [note for note in document["notes"] if "stacks" not in note]
    (folder,) = tmp_path.iterdir()
    lines = (folder / "stacks-b.folded").read_text().splitlines()
    found = {stack: int(value) / 1000 for stack, _, value in (one.rpartition(" ") for one in lines)}
    layers = {one["name"]: one for one in document["layers"]}
    for side in "ab":
        total = sum(one[side] for one in document["functions"])
        assert sum(one[side] for one in layers.values()) == pytest.approx(total, rel=0.001)
    # The filter is a part of routing. What the kernel does now and then, beside packets, is in the
    # sum: some instructions of each, and seldom twenty.
    more = {name: one["b"] - one["a"] for name, one in layers.items()}
    assert more["route"] == pytest.approx(sum(more.values()), rel=0.1)
    as_pprof = pprof.profile()
    as_pprof.ParseFromString(gzip.decompress((folder / "stacks-b.pb.gz").read_bytes()))
    assert sum(one.value[0] for one in as_pprof.sample) == pytest.approx(1000 * sum(found.values()))
    # It is as deep as the kernel is, and all of the packets' work is below who sends them.
    path = "ip_rcv_finish_core;ip_route_input_noref;ip_route_input_slow;fib_validate_source"
    looked = [stack for stack in found if stack.endswith(f"{path};__fib_validate_source")]
    assert any(";__napi_poll;veth_poll;" in stack for stack in looked)
    sent = sum(value for stack, value in found.items() if stack.startswith("pktgen_thread_worker"))
    whole = sum(value for value in found.values())
    assert sent > 0.98 * whole > by_name["pktgen_thread_worker"]["b_inclusive"]


def test_every_setting_of_an_experiment_is_explained_by_functions(
    skblab: Skblab, tmp_path: Path
) -> None:
    file = tmp_path / "few.toml"
    file.write_text(
        'name = "few"\nquestion = "?"\nbaseline = { rp_filter = 0, gro = true }\n'
        '[[setting]]\nname = "strict"\nknobs = { rp_filter = 1 }\n'
        '[[setting]]\nname = "one rule"\nknobs = { netfilter = "nft-forward 1" }\n'
        '[[setting]]\nname = "no GRO"\nknobs = { gro = false }\n'
    )
    words = ("--experiment", str(file), "--packets", "2000")
    found = profiled(skblab, tmp_path / "results", *words)["settings"]
    assert [one["b"]["title"] for one in found] == ["strict", "one rule", "no GRO"]
    for one, function in zip(found, ("fib_table_lookup", "nft_do_chain", "gro"), strict=True):
        more = one["clock"]["b"] - one["clock"]["a"]
        added = {of["name"]: of["b"] - of["a"] for of in one["functions"]}
        again = sum(of["b_again"] - of["a_again"] for of in one["functions"])
        named = sum(value for value in added.values() if abs(value) >= 1) + again
        assert named == pytest.approx(more, rel=0.07)
        assert any(function in name and abs(value) > 50 for name, value in added.items())
    # All have the same baseline, and nothing of a setting is left for the next.
    assert len({one["clock"]["a"] for one in found}) == 1
    assert found[2]["clock"]["b"] < found[2]["clock"]["a"]
    (folder,) = (tmp_path / "results").iterdir()
    page = (folder / "report/index.html").read_text()
    assert "What each setting adds" in page and 'class="flame"' in page


# A program that runs while many packets pass, as an ssh server may: the first time, or each time.
BESIDE = """
	if [ -n "$marks" ] && [ "$4" = 2000 ] && [ "$(cat /tmp/beside | wc -l)" -lt OFTEN ]; then
		echo >>/tmp/beside
		(left=40000; while [ "$left" -gt 0 ]; do left=$((left - 1)); done) >/dev/null 2>&1 &
	fi
"""


@pytest.mark.parametrize("often", [2, 99], ids=["once", "always"])
def test_what_else_a_guest_did_is_in_no_figure_or_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int
) -> None:
    script = comparison.script

    def beside(*words: Any, **more: Any) -> str:  # noqa: ANN401
        before, name, after = script(*words, **more).partition("timed() {")
        comment, _, rest = after.partition("\n")
        start = ": >/tmp/beside\n"
        return f"{start}{before}{name}{comment}{BESIDE.replace('OFTEN', str(often))}{rest}"

    monkeypatch.setattr(comparison, "script", beside)
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path))
    one = asked.Settings("one", {}, {"strict": {"rp_filter": 1}})
    wanted = asked.experiment(names.parse("6.12+skblab"), one, 4, 2000, 1)
    _, (document,) = comparison.Comparison(wanted, {}, Reporter()).recorded()
    told = [note for note in document.notes if "something else ran beside them" in note]
    each = Counter((run.row, run.part, run.packets) for run in document.runs)
    if often == 2:
        assert told == []
        assert document.clock["b"] - document.clock["a"] == pytest.approx(480, rel=0.1)
        assert each["a", "tester", 2000] == each["a", "forward", 2000] == 2
    else:
        assert len(told) == 4
        assert set(each.values()) == {1 + comparison.MORE_ROUNDS}


@pytest.mark.console("sysrq triggered crash")
def test_a_panic_in_one_row_costs_no_row_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = comparison.script

    def deadly(rows: Sequence[Row], *words: Any, **more: Any) -> str:  # noqa: ANN401
        crash = "echo c >/proc/sysrq-trigger\n" if rows[0].title == "deadly" else ""
        return script(rows, *words, **more) + crash

    monkeypatch.setattr(comparison, "script", deadly)
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path))
    settings: dict[str, Knobs] = {
        "strict": {"rp_filter": 1},
        "deadly": {"gro": False},
        "last": {"rp_filter": 2},
    }
    wanted = asked.experiment(
        names.parse("6.12+skblab"), asked.Settings("three", {}, settings), 4, 1000, 1
    )
    counted = comparison.Comparison(wanted, {}, Reporter())
    folder, (document,) = counted.recorded()
    assert document.b.title == "strict"
    assert document.clock["b"] - document.clock["a"] > 300
    deadly_, last = document.notes[-2:]
    assert deadly_.startswith("deadly is left out: guest panic: ")
    assert "sysrq triggered crash" in deadly_
    assert last.startswith("last is left out: it was not counted, since of a row before: ")
    assert [path.name for path in folder.path.glob("functions*.json")] == ["functions.json"]
    with pytest.raises(GuestError, match="sysrq triggered crash"):
        counted.end()
