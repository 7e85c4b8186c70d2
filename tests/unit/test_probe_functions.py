# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe functions`: what is asked for, and what is refused before anything is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import made_up_functimes
from conftest import Skblab
from skblab.lab.kernel import names
from skblab.probe.functions import MOST, Asked, Tracing, Written
from skblab_analysis.formats.bylayer import BEGIN
from skblab_analysis.formats.functimes import FILE, FunctimesDocument
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder


def tracing(*names: str, layers: tuple[str, ...] = (), seconds: float | None = None) -> Tracing:
    return Tracing.of(names, layers, seconds, verbose=False)


def test_the_functions_of_a_layer_need_not_be_there() -> None:
    found = tracing("udp_rcv", "ip_rcv", layers=("socket", "local"), seconds=0.25)
    assert found.names == ("udp_rcv", "ip_rcv")
    assert "udp_rcv" not in found.optional
    assert set(found.optional) == {*BEGIN["socket"], *BEGIN["local"]} - {"udp_rcv"}
    options = found.options()
    assert options[:4] == ["udp_rcv", "ip_rcv", "--optional", "__udp4_lib_rcv"]
    assert options[-2:] == ["--seconds", "0.25"]


def test_what_times_them_can_be_asked_for() -> None:
    assert "--by" not in tracing("udp_rcv").options()
    by = Tracing.of(["udp_rcv"], [], None, "function-graph", verbose=False)
    assert by.options() == ["udp_rcv", "--by", "function-graph"]


def test_every_layer_has_room() -> None:
    for layer in BEGIN:
        assert 0 < len(tracing(layers=(layer,)).optional) <= MOST


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "which functions? Expected names, such as udp_rcv, or --layer socket"),
        (("--layer", "nonsense"), "--layer nonsense: expected one of stack, ip, route"),
        (("udp_rcv", "udp_rcv"), "udp_rcv: given twice"),
        (("",), "expected the name of a kernel function"),
        (tuple(f"f{number}" for number in range(65)), "65 functions: expected no more than 64"),
        (("udp_rcv", "--seconds", "0"), "--seconds 0: expected a number above 0"),
        (("udp_rcv", "--by", "kprobe"), "expected fentry, function-graph or auto"),
        (("udp_rcv", "--on", ""), "expected here, guest, or a host"),
        (("udp_rcv", "--exact"), "--exact is of a guest's own traffic"),
        (("udp_rcv", "--packets", "9"), "--packets is of a guest's own traffic"),
        (("udp_rcv", "--on", "guest", "--load", "http"), "--load http: expected udp, tcp or sctp"),
        (("udp_rcv", "--on", "guest", "--exact", "--seconds", "1"), "counts instructions"),
        (("udp_rcv", "--on", "guest", "--ssh-config", "x"), "only for --on HOST"),
    ],
)
def test_bad_usage_is_one_line(skblab_here: Skblab, arguments: tuple[str, ...], words: str) -> None:
    done = skblab_here("probe", "functions", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_what_was_counted_so_far_is_in_the_run_folder(tmp_path: Path) -> None:
    seen: list[FunctimesDocument] = []
    written = Written(exact=True, show=seen.append)
    text = json.dumps(made_up_functimes.document(final=False))
    written(text)
    plan = Plan(experiment="functions", question="?", seed=0, again="./skblab")
    written.folder = RunFolder.create(tmp_path, "functions", plan)
    written(text)
    stored = FunctimesDocument.model_validate_json((written.folder.path / FILE).read_text())
    assert stored == seen[1] and not stored.final
    # The clock of such a guest counts instructions, whatever the probe calls them.
    assert stored.unit == "instructions"


def test_the_command_again_has_all_names(tmp_path: Path) -> None:
    asked = Asked(
        on="here",
        ssh_config=None,
        tracing=tracing("udp_rcv", layers=("xmit",)),
        sending=None,
        chosen=names.parse("6.12").request("stock"),
        again="./skblab probe functions udp_rcv --layer xmit",
    )
    assert asked.plan().parameters == {"on": "here", "functions": "udp_rcv __dev_queue_xmit"}
