# SPDX-License-Identifier: GPL-2.0-or-later
"""skblab tune: what is chosen, tried together, advised; and the script that sets and reverts it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
import test_sweep_wall as walls
from test_report import fake_gnuplot
from typer.testing import CliRunner

from skblab.cli import app
from skblab.commands import tune as tuning
from skblab.knobs.applying import Applied, Applier
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.machine.device import Machine
from skblab.sweep.experiment import Experiment, read
from skblab.sweep.request import SHIPPED
from skblab.testbeds import base
from skblab.testbeds.netns import Netns
from skblab.tune import choosing, deriving, page, script
from skblab.tune.deriving import BEST_ALONE, TOGETHER
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.settings.rows import ReadBack


def experiment(**more: object) -> Experiment:
    settings = [
        {"name": "loose", "knobs": {"rp_filter": 2}},
        {"name": "off", "knobs": {"rp_filter": 0}},
        {"name": "budget", "knobs": {"netdev_budget": 600}},
        {"name": "both", "knobs": {"rp_filter": 0, "netdev_budget": 600}},
    ]
    made = {
        "name": "few",
        "question": "Which?",
        "baseline": {"rp_filter": 1},
        "setting": settings,
        "measure": {"throughput": {"seconds": 1.0}},
    }
    return Experiment.model_validate(made | more)


def test_settings_are_set_together_unless_they_contradict_a_better_one() -> None:
    found = choosing.combine(experiment(), ["off", "loose", "budget", "both"])
    assert found.settings == ("off", "budget", "both")
    assert found.knobs == {"rp_filter": 0, "netdev_budget": 600}
    assert found.left == (("loose", "what is better wants rp_filter=0"),)
    # A knob that is as in the baseline is none that is set.
    wanted = experiment(setting=[{"name": "same", "knobs": {"rp_filter": 1, "netdev_budget": 9}}])
    assert choosing.combine(wanted, ["same"]).knobs == {"netdev_budget": 9}
    assert choosing.combine(experiment(), []) == choosing.Chosen((), {}, ())


def test_what_a_goal_needs_is_said() -> None:
    choosing.require(experiment(), "throughput", "few.toml")
    choosing.require(experiment(), "instructions", "few.toml")
    with pytest.raises(UsageError) as refused:
        choosing.require(experiment(), "latency", "few.toml")
    assert str(refused.value) == (
        "--for latency: few.toml has no [measure.latency]; write one, or ask for what there is: "
        "--for throughput or --for instructions"
    )


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.toml")))
def test_a_derived_experiment_is_read_back_as_it_is(name: str, tmp_path: Path) -> None:
    found = deriving.first(read(SHIPPED / f"{name}.toml"))
    file = tmp_path / "sweep.toml"
    file.write_text(deriving.text(found))
    again = read(file)
    assert again == found
    assert (again.repeats.least, again.repeats.most) == (3, 30)
    best, *others = [setting.name for setting in found.settings()]
    chosen = choosing.combine(found, [best, *others[:1]])
    second = deriving.confirming(found, chosen)
    file.write_text(deriving.text(second))
    assert read(file) == second
    names = [setting.name for setting in second.settings()]
    assert names == ([TOGETHER, BEST_ALONE] if len(chosen.settings) > 1 else [TOGETHER])
    assert second.settings()[0].knobs == dict(chosen.knobs)
    assert second.traffic == found.traffic and second.baseline == found.baseline
    assert second.seed != found.seed


def readings(**values: tuple[Value, str, str]) -> list[ReadBack]:
    return [
        ReadBack(knob=name, value=str(value), before=before, wanted=wanted, after=wanted)
        for name, (value, before, wanted) in values.items()
    ]


def test_a_knob_is_put_back_to_the_baselines_value_or_to_what_was_found() -> None:
    found = [
        *readings(rp_filter=(1, "all=7", "all=1"), netdev_budget=(600, "300", "600")),
        *readings(rp_filter=(0, "all=1", "all=0")),
        # Later trials find what earlier ones have left: it is not what was there.
        *readings(netdev_budget=(600, "600", "600")),
    ]
    knobs: Mapping[str, Value] = {"rp_filter": 0, "netdev_budget": 600}
    assert script.states(found, knobs, {"rp_filter": 1}) == {
        "rp_filter": ("all=1", "all=0"),
        "netdev_budget": ("300", "600"),
    }
    with pytest.raises(SkblabError, match="no trial has set netdev_budget"):
        script.states([found[0], found[2]], knobs, {"rp_filter": 1})
    # Only a boot sets it: no script does.
    assert script.states(found, {**knobs, "kernel": "rt"}, {"rp_filter": 1}).keys() == knobs.keys()


def sysctls(machine: Machine, directory: Path) -> str:
    """Return the script for one sysctl, with its files in a directory instead of /proc."""
    knob = KNOBS["netdev_budget"]
    was, wanted = (knob.wanted(machine, value, knob.likely(machine)) for value in (300, 600))
    made = script.script(machine, ["For a test."], {"netdev_budget": (was, wanted)})
    return made.replace("/proc/sys/net/core", str(directory))


@pytest.mark.parametrize(
    ("words", "value"),
    [([], "600"), (["set"], "600"), (["start"], "600"), (["--revert"], "300"), (["stop"], "300")],
)
def test_the_script_sets_and_reverts(words: list[str], value: str, tmp_path: Path) -> None:
    machine = script.at_home(base.machine(2, "router", veth=True), ("eth0", "eth1"))
    file = tmp_path / "advice.sh"
    file.write_text(sysctls(machine, tmp_path))
    subprocess.run(["sh", file, *words], check=True)
    assert (tmp_path / "netdev_budget").read_text().strip() == value


def test_a_script_of_a_word_that_it_does_not_know_does_nothing(tmp_path: Path) -> None:
    file = tmp_path / "advice.sh"
    file.write_text(sysctls(base.machine(2, None), tmp_path))
    done = subprocess.run(["sh", file, "--undo"], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "--revert" in done.stderr
    assert not (tmp_path / "netdev_budget").exists()
    checked = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), file],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stdout) == (0, "")


def test_at_home_ports_have_their_own_names_and_no_namespace() -> None:
    machine = base.machine(2, "router", veth=True)
    at_home = script.at_home(machine, ("eth0", "eth1"))
    assert [device.name for device in at_home.devices] == ["eth0", "eth1"]
    assert {device.netns for device in at_home.devices} == {None} and at_home.netns is None
    knob = KNOBS["rp_filter"]
    was, wanted = (knob.wanted(at_home, value, knob.likely(at_home)) for value in (0, 1))
    made = script.script(at_home, [], {"rp_filter": (was, wanted)})
    assert "ip netns" not in made and "/eth1/rp_filter" in made and "r1/" not in made
    assert [device.name for device in script.at_home(machine, None).devices] == ["r0", "r1"]


def test_files_for_a_reboot() -> None:
    knobs: Mapping[str, Value] = {"rp_filter": 0, "netdev_budget": 600, "gro": False}
    assert page.sysctls(knobs) == {
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.DEVICE.rp_filter": "0",
        "net.core.netdev_budget": "600",
    }
    assert "net.core.netdev_budget = 600\n" in page.sysctl_conf(knobs)
    tuned = page.tuned_conf(knobs)
    # What has a device's name is set by the script.
    assert "net.core.netdev_budget=600\n" in tuned and "DEVICE" not in tuned
    assert tuned.endswith("[script]\nscript=${i:PROFILE_DIR}/advice.sh\n")


def tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guests: list[walls.Guest]
) -> tuple[dict[str, object], Path]:
    """Tune with made-up guests, one after the other, the last one again and again."""

    @contextlib.contextmanager
    def guest(*_: object) -> Iterator[tuple[Netns, Applier]]:
        one = guests.pop(0) if len(guests) > 1 else guests[0]
        yield cast(Netns, one), cast(Applier, one)

    file = walls.as_if_booted(tmp_path, monkeypatch, guest)
    monkeypatch.setattr(tuning, "gnuplot", lambda root: fake_gnuplot)
    call = ["tune", str(file), "--testbed", "netns", "--minutes", "600", "--json"]
    monkeypatch.setattr(deriving, "MOST_BLOCKS", 3)
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.exception
    document = json.loads(done.stdout)
    return document, Path(document["folder"])


def test_what_is_better_in_both_sweeps_is_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, folder = tuned(tmp_path, monkeypatch, [walls.Guest()])
    assert document["settings"] == ["no filter"] and document["why_none"] == ""
    told = (folder / "advice.md").read_text().replace(FIXED_SPACE, " ")
    assert "**Set this.** In fresh boots, no filter: throughput +" in told
    assert "sysctl -w net.ipv4.conf.all.rp_filter=0" in told
    assert {file.name for file in folder.iterdir()} == {
        *("advice.md", "advice.sh", "sysctl.conf", "tuned.conf", "sweep.toml", "confirm.toml")
    }
    confirm = tomllib.loads((folder / "confirm.toml").read_text())
    assert [setting["name"] for setting in confirm["setting"]] == [TOGETHER]
    assert len(list((tmp_path / "results").glob("few-*"))) == 2


def test_what_is_not_better_in_fresh_boots_is_not_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alike(walls.Guest):
        """The filter costs nothing in this one."""

        def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
            found = super().apply(settings)
            self.rp_filter = "0"
            return found

    guests = [walls.Guest(), walls.Guest(), walls.Guest(), Alike()]
    document, folder = tuned(tmp_path, monkeypatch, guests)
    assert document["settings"] == []
    assert document["why_none"] == "What was better in the sweep was not so in fresh boots."
    told = (folder / "advice.md").read_text()
    assert "**Set nothing.**" in told and "no filter was not significantly better" in told
    assert not (folder / "advice.sh").exists()
    assert list(folder.glob("*.conf")) == []


def test_where_no_setting_is_better_there_is_no_second_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alike(walls.Guest):
        def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
            found = super().apply(settings)
            self.rp_filter = "0"
            return found

    document, folder = tuned(tmp_path, monkeypatch, [Alike()])
    assert document["settings"] == [] and document["confirmed"] == ""
    assert str(document["why_none"]).startswith("No setting is significantly better")
    assert not (folder / "confirm.toml").exists()


def test_bad_usage_is_one_line() -> None:
    for words, said in (
        (["--for", "fun"], "--for fun: expected one of throughput, latency, instructions"),
        (["--testbed", "mars"], "--testbed mars: expected one of "),
        (["--for", "latency"], "--for latency: quick has no [measure.latency]"),
        (["--testbed", "hosts"], "--testbed hosts needs --hosts FILE"),
    ):
        done = CliRunner().invoke(app, ["tune", "quick", *words])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception).startswith(said)
