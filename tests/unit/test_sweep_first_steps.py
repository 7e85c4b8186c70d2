# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user of sweeps meets first: the list, a dry run, the first example, what is misnamed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skblab.cli import app
from skblab.knobs.naming import PAGE, unknown
from skblab.lab import paths
from skblab.sweep.budget import fitting
from skblab.sweep.measure.exact import AT_ONCE
from skblab.sweep.request import SHIPPED, exact_cpus, make_plan, read
from skblab.sweep.shipped import FIRST, shipped
from skblab_analysis.base.errors import UsageError

# Of a terminal.
COLUMNS, LINES = 120, 50
HEAD = 'name = "few"\nquestion = "?"\n'


def dry_run(*words: str) -> str:
    done = CliRunner().invoke(app, ["sweep", *words, "--dry-run"])
    assert done.exit_code == 0, done.exception
    return done.stdout


def refused(tmp_path: Path, text: str, *options: str) -> str:
    """Return what is said of an experiment file, without its name."""
    file = tmp_path / "few.toml"
    file.write_text(text)
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", *options])
    assert isinstance(done.exception, UsageError)
    return str(done.exception).removeprefix(f"{file}:")


def test_the_first_experiment_ends_in_three_minutes() -> None:
    found = read(FIRST)
    assert len(found.settings()) == 3
    assert make_plan(found, exact=True).seconds() <= 3 * 60


def test_the_first_look_ends_in_five_minutes() -> None:
    assert make_plan(read("quick"), exact=False).seconds() <= 5 * 60


@pytest.mark.parametrize("options", [[], ["--list"], ["routes", "--list"]])
def test_the_experiments_are_listed(options: list[str]) -> None:
    done = CliRunner().invoke(app, ["sweep", *options])
    assert done.exit_code == 0, done.exception
    rows = [line.split() for line in done.stdout.splitlines()]
    names = [row[0] for row in rows[1 : 1 + len(list(SHIPPED.glob("*.toml")))]]
    assert sorted(names) == sorted(file.stem for file in SHIPPED.glob("*.toml"))
    assert names[0] == FIRST
    [realtime] = [line for line in done.stdout.splitlines() if line.startswith("realtime")]
    assert re.search(r"under load\? +23 +– +7\.\d h +virtio virtio-pktgen hosts", realtime)
    assert f"./skblab sweep {FIRST} --exact" in done.stdout


def test_the_list_has_what_plans_say() -> None:
    for experiment in shipped():
        found = read(experiment.name)
        assert experiment.question == found.question
        timed = make_plan(found, exact=False)
        exact = make_plan(found, exact=True, cpus=exact_cpus(found))
        # Of what its budget leaves.
        assert experiment.timed == timed.seconds(fitting(timed, 1))
        assert experiment.timed <= 60 * (found.repeats.budget_minutes or 0)
        assert experiment.exact in (None, exact.seconds(at_once=AT_ONCE))
    assert {experiment.name for experiment in shipped() if experiment.exact is None} == {
        "queues-and-affinity",
        "realtime",
    }


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_a_dry_run_is_two_screens(file: Path, exact: bool) -> None:
    options = ["--exact"] if exact else []
    said = dry_run(file.stem, *options)
    folded = [part for line in said.splitlines() for part in textwrap.wrap(line, COLUMNS) or [""]]
    assert len(folded) <= 2 * LINES
    # All settings are in it, and what sets each of their values.
    found = read(file.stem)
    for setting in found.settings():
        assert f"  {setting.name}" in said
        for name, value in setting.knobs.items():
            assert found.catalogue[name].by_hand(value) in said
    command = " ".join(["./skblab sweep", file.stem, *options])
    assert said.endswith(
        "\n\nThis was a dry run: nothing was measured, and no setting was changed.\n"
        f"To run it: {command}\nOrder and scripts: {command} --dry-run --scripts\n"
    )


def test_a_dry_run_repeats_the_command_as_it_was_typed(tmp_path: Path) -> None:
    words = ["router-settings", "--exact", "--packets", "5000", "--flavour", "rt", "--kernel"]
    words += ["6.12"]
    assert f"\nTo run it: ./skblab sweep {' '.join(words)}\n" in dry_run(*words)


def test_scripts_alone_run_nothing() -> None:
    alone = CliRunner().invoke(app, ["sweep", FIRST, "--scripts"])
    assert alone.exit_code == 0
    assert alone.stdout == dry_run(FIRST, "--scripts")
    assert "\nblock 2\n" in alone.stdout
    assert "# making the testbed" in alone.stdout


def test_instructions_are_counted_without_a_section_that_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(HEAD + "matrix.rp_filter = [1]\n")
    assert "Measured: instructions;" in dry_run(str(file), "--exact")
    said = refused(tmp_path, file.read_text())
    assert said.startswith(" it does not say what to measure on the wall clock: ")
    # What it says to write is enough.
    [section] = re.findall(r"write (\[[a-z.]+\])", said)
    file.write_text(f"{file.read_text()}{section}\n")
    assert "Measured: throughput;" in dry_run(str(file))
    assert "Measured: instructions;" in dry_run(str(file), "--exact")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[baseline]\nnet.core.netdev_budget = 300\n",
            "4: baseline.net.core.netdev_budget: write `netdev_budget`: knobs are named without "
            "the prefix",
        ),
        (
            '[baseline]\n"net.core.netdev_budget" = 300\n',
            "4: baseline.net.core.netdev_budget: write `netdev_budget`: ",
        ),
        (
            "[baseline.net.ipv4.conf.all]\nrp_filter = 1\n",
            "4: baseline.net.ipv4.conf.all.rp_filter: write `rp_filter`: ",
        ),
        (
            "[matrix]\nnet.core.dev_weight = [1, 2]\n",
            "4: matrix.net.core.dev_weight: write `dev_weight`: ",
        ),
        (
            '[[setting]]\nname = "a"\nknobs = { net.core.rps_sock_flow_entries = 9 }\n',
            "5: setting.0.knobs.net.core.rps_sock_flow_entries: no such knob; write "
            "`rfs_entries`, which sets rps_sock_flow_entries",
        ),
        (
            "[baseline]\nrx-usecs = 9\n",
            "4: baseline.rx-usecs: write `rx_usecs`: knobs are named without hyphens",
        ),
        (
            "[baseline]\nnetdev_bugdet = 9\n",
            "4: baseline.netdev_bugdet: no such knob; the nearest is `netdev_budget`",
        ),
    ],
)
def test_a_knob_by_another_name_is_answered_with_its_own(
    tmp_path: Path, text: str, said: str
) -> None:
    assert refused(tmp_path, HEAD + text + "[measure.throughput]\n").startswith(said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scaling_governor", "no such knob; write `governor`, which sets scaling_governor"),
        ("rps_cpus", "no such knob; write `rps`, which sets rps_cpus"),
        ("net/core/busy_poll", "write `busy_poll`: knobs are named without the prefix"),
        ("x", f"no such knob; all are in {PAGE}"),
    ],
)
def test_unknown_names(name: str, said: str) -> None:
    assert unknown(name) == said
    assert (paths.tree() / PAGE).exists()
