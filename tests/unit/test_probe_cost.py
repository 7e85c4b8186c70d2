# SPDX-License-Identifier: GPL-2.0-or-later
"""Calibrations of the probe: what is measured, found again, or named as missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pydantic import BaseModel

from made_up_cost import HOOKS
from made_up_cost import exact as made_up
from made_up_cost import wall as made_up_wall
from skblab.bench import readers
from skblab.lab import kernel, paths, tools
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.model import Own
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.probe.cost import calibration, exact, wall
from skblab.probe.loads import Load
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.cost.summary import sentence
from skblab_analysis.formats import cost as probe
from skblab_analysis.formats.cost import CostDocument, Probe
from skblab_analysis.formats.scripts import ScriptDocument, ScriptName, ScriptsDocument, Source

HISTOGRAMS = Probe(backend="bpf", source="histograms")
STAP = Probe(backend="stap", source="hooks", polls="hooks")
LAB = cast(LabRoot, SimpleNamespace(key="lab"))


def built(*, patched: bool, key: str = "k", release: str = "6.12.0-plain") -> Kernel:
    fragments = ("base", "skblab") if patched else ("base",)
    record = SimpleNamespace(
        release=release,
        fragments=fragments,
        patched=patched,
        flavour="stock",
        made="now",
        source="/usr/src/linux-source-6.12.tar.xz",
        revision=None,
        packages={},
    )
    parts = {"key": key, "release": record.release, "record": record, "own": None}
    return cast(Kernel, SimpleNamespace(**parts))


def test_the_same_kernel_is_the_baseline() -> None:
    without, with_ = exact.rows(built(patched=True), HISTOGRAMS)
    assert (without.trace, with_.trace) == (0, 1)
    assert (without.reader, with_.reader) == ("none", "pathlat:--source histograms")
    without, with_ = exact.rows(built(patched=True), HOOKS)
    assert (without.trace, with_.trace) == (0, 0)
    without, with_ = exact.rows(
        built(patched=False), Probe(backend="bpf", source="hooks", kprobes=True)
    )
    assert (without.trace, with_.trace) == (None, None)
    assert with_.reader == "pathlat:--source hooks --kprobes"


@pytest.mark.parametrize("polls", ["samples", "hooks"])
def test_scripts_have_their_polls_from_a_source_of_their_own(polls: Source) -> None:
    sources: dict[ScriptName, Source] = {"receive": "hooks", "forward": "hooks", "napi": polls}
    scripts = tuple(
        ScriptDocument.model_construct(
            backend="stap", script=name, source=source, kernel="6.12", missed=0
        )
        for name, source in sources.items()
    )
    made = calibration.probe_of(ScriptsDocument.model_construct(scripts=scripts), kprobes=False)
    assert made == STAP.model_copy(update={"polls": polls})


def test_scripts_are_not_counted_by_others() -> None:
    _, with_ = exact.rows(built(patched=False), STAP)
    assert with_.reader == "scripts"


def test_scripts_that_hook_count_all_until_the_route_is_known() -> None:
    sent = {"tester": 1, "forward": 10, "queue": 100, "read": 100}
    hooks = readers.script_expected(sent)
    assert hooks["receive stack"] == hooks["forward stack"] == 121
    assert hooks["receive route"] == hooks["forward ip"] == 110
    assert (hooks["receive total"], hooks["forward total"]) == (100, 10)


def test_pairs_take_turns() -> None:
    # As runs went: the first of each pair in turn without and with the probe.
    pairs = wall._pairs([100, 90, 91, 101, 102, 92, 93, 103, 104, 94])
    assert [pair.first for pair in pairs] == ["without", "with", "without", "with", "without"]
    assert [pair.without_probe for pair in pairs] == [100, 101, 102, 103, 104]
    assert [pair.with_probe for pair in pairs] == [90, 91, 92, 93, 94]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A store of its own, with measuring that only notes that it was called."""
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pathlat").write_bytes(b"program")
    monkeypatch.setattr(tools, "ensure_probe", lambda *_: tmp_path)
    paths.cache().joinpath("locks").mkdir()
    calls: list[str] = []

    def count(*_: object) -> probe.ExactCost:
        calls.append("exact")
        return made_up()

    def run_pairs(*_: object) -> probe.WallCost:
        calls.append("wall")
        return made_up_wall(0.9)

    monkeypatch.setattr(exact, "count", count)
    monkeypatch.setattr(wall, "measure", run_pairs)
    return calls


def calibrated(one: Kernel, load: Load) -> CostDocument:
    return calibration.calibrated(one, HOOKS, load, LAB, Reporter(quiet=True))


def test_it_is_measured_once(measured: list[str]) -> None:
    one = built(patched=False)
    first = calibrated(one, Load())
    assert measured == ["exact", "wall"]
    assert calibrated(one, Load()) == first
    assert measured == ["exact", "wall"]
    # Throughput is the load's, instructions are not.
    calibrated(one, Load("tcp"))
    assert measured == ["exact", "wall", "wall"]
    calibrated(built(patched=False, key="other"), Load())
    assert measured == ["exact", "wall", "wall", "exact", "wall"]


def test_another_machine_has_what_is_known_of_ours(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = built(patched=False)
    monkeypatch.setattr(kernel, "readable", lambda: [built(patched=True), one])
    reporter = Reporter(quiet=True)
    unknown = calibration.known("5.15.0", HOOKS, LAB, reporter)
    assert (unknown.exact, unknown.wall) == (None, None)
    assert unknown.again == "./skblab probe layers --on guest --kernel 6.12 --load udp"
    assert measured == []
    calibrated(one, Load("sctp"))
    found = calibration.known("5.15.0", HOOKS, LAB, reporter)
    assert found.exact == made_up()
    assert found.wall is not None
    assert not found.own
    assert "on 6.12.0-plain in a guest" in sentence(found)
    # Of histograms nothing was measured.
    assert calibration.known("6.12.0", HISTOGRAMS, LAB, reporter).exact is None


def test_another_machine_has_what_is_known_of_its_own_line(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(document: BaseModel) -> Callable[..., BaseModel]:
        return lambda on, *_: document.model_copy(update={"kernel": on.release})

    monkeypatch.setattr(exact, "count", of(made_up()))
    monkeypatch.setattr(wall, "measure", of(made_up_wall(0.9)))
    both = [built(patched=False, key=name, release=f"{name}.1-plain") for name in ("6.12", "7.3")]
    monkeypatch.setattr(kernel, "readable", lambda: both)
    for one in both:
        calibrated(one, Load())
    of_releases = {"7.3.4+deb13-amd64": "7.3.1-plain", "6.12.5": "6.12.1-plain", "5.15.0": None}
    for release, own in of_releases.items():
        found = calibration.known(release, HOOKS, LAB, Reporter(quiet=True)).exact
        assert found is not None
        assert found.kernel == (own or both[0].release)


def test_a_refusal_is_told_and_not_kept(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> probe.ExactCost:
        raise RefusedError("saw too few")

    one, good = built(patched=False), exact.count
    monkeypatch.setattr(exact, "count", refuse)
    found = calibrated(one, Load())
    assert (found.exact, found.refused) == (None, "saw too few")
    assert found.wall is not None
    monkeypatch.setattr(exact, "count", good)
    assert calibrated(one, Load()).exact is not None


@pytest.mark.parametrize(
    ("probe", "patched", "words"),
    [
        (HISTOGRAMS, True, ""),
        (HOOKS, False, "--kernel 6.12 "),
        (HOOKS, True, "--source hooks "),
        (STAP, False, "--kernel 6.12 --backend stap "),
        (STAP, True, "--source hooks --backend stap "),
        (STAP.model_copy(update={"polls": "samples"}), True, "--backend stap "),
        (Probe(backend="bpf", source="hooks", kprobes=True), False, "--kernel 6.12 --kprobes "),
    ],
)
def test_the_command_that_measures_it(probe: Probe, patched: bool, words: str) -> None:
    command = calibration.again(probe, Load(), Name(patches=patched))
    assert command == f"./skblab probe layers --on guest {words}--load udp"


def test_the_command_names_the_tree_that_it_was_measured_on() -> None:
    own = built(patched=False, release="6.12.0-plain")
    own.record.source, own.record.revision = "/home/me/linux", "abc"  # type: ignore[misc]
    assert " --kernel git:/home/me/linux@abc " in calibration._again(HOOKS, Load(), own)


def test_what_options_of_the_users_own_cost_is_said_of_no_other_kernel(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = built(patched=False)
    one.own = Own(Path("/home/me/my.config"), "CONFIG_PSI=n\n")  # type: ignore[misc]
    monkeypatch.setattr(kernel, "readable", lambda: [one])
    command = calibrated(one, Load()).again
    assert command == (
        "./skblab probe layers --on guest --kernel 6.12+config:/home/me/my.config --load udp"
    )
    assert measured == ["exact", "wall"]
    assert calibration.known("6.12.0", HOOKS, LAB, Reporter(quiet=True)).exact is None


@pytest.mark.parametrize("source", ["debian:6.1.0-50-amd64", "deb:/home/me/linux-image-1.deb"])
def test_the_command_names_the_package_that_it_was_measured_on(source: str) -> None:
    own = built(patched=False, release="6.1.0-50-amd64")
    own.record.source, own.record.packages = source, {"a": "b"}  # type: ignore[misc]
    assert f" --kernel {source} " in calibration._again(HOOKS, Load(), own)


def test_the_command_names_another_flavour() -> None:
    command = calibration.again(HISTOGRAMS, Load("tcp", 6, True), Name(), flavour="rt")
    assert command == "./skblab probe layers --on guest --flavour rt --load tcp6-forward"
