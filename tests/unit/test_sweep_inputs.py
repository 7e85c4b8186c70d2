# SPDX-License-Identifier: GPL-2.0-or-later
"""A run that goes on later has the kernels and the files that it began with."""

from __future__ import annotations

from pathlib import Path

import pytest

from skblab.lab import kvm
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.sweep import plan
from skblab.sweep.booting import Booting
from skblab.sweep.experiment import Experiment
from skblab.sweep.inputs import check, inputs
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder


def boots(key: str) -> Booting:
    return Booting("stock", True, {("stock", True): Kernel(Path("/nowhere"), key)})


def made(routes: Path, *, exact: bool = True) -> plan.Plan:
    experiment = {
        "name": "few",
        "question": "?",
        "setting": [{"name": "table", "knobs": {"routes": str(routes)}}],
        "measure": {"throughput": {}},
    }
    return plan.make(Experiment.model_validate(experiment), exact=exact)


def found_with(key: str, routes: Path) -> dict[str, str]:
    return inputs(made(routes), boots(key), LabRoot(Path("/nowhere"), "root"))


def test_what_changed_meanwhile_is_named(tmp_path: Path) -> None:
    routes = tmp_path / "table.txt"
    routes.write_text("198.51.100.0/24\n")
    folder = RunFolder.create(tmp_path, "few", Plan(experiment="few", seed=1, again="./skblab x"))
    check(folder, found_with("aa", routes))
    # As it was.
    check(RunFolder.open(folder.path), found_with("aa", routes))
    with pytest.raises(
        UsageError, match=r"kernel stock was aa when it began, and is bb now: .* x$"
    ):
        check(folder, found_with("bb", routes))
    routes.write_text("203.0.113.0/24\n")
    with pytest.raises(UsageError, match=r"routes .*/table\.txt was \w+ when it began"):
        check(folder, found_with("aa", routes))
    found = found_with("aa", routes)
    assert found["guests"] == "tcg"
    del found[f"routes {routes}"]
    with pytest.raises(UsageError, match="and is not there"):
        check(folder, found)


def test_all_that_figures_come_from_is_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = tmp_path / "table.txt"
    routes.write_text("198.51.100.0/24\n")
    plain = Booting("stock", False, {("stock", False): Kernel(Path("/nowhere"), "aa")})
    there = (plain, LabRoot(Path("/nowhere"), "root"), [Bind(Path("/cache/bb"), "build")])
    monkeypatch.setattr(kvm, "verdict", lambda: kvm.Verdict(works=True, tried=True, why=""))
    for exact, guests in ((True, "tcg"), (False, "kvm")):
        assert inputs(made(routes, exact=exact), *there) == {
            "kernel stock without patches": "aa",
            "lab root": "root",
            "build": "bb",
            "guests": guests,
            f"routes {routes}": "8e504a6590805a78",
        }
