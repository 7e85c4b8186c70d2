# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact sweeps whose boots are tasks: the same figures as in one piece, and nothing twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import synthetic_run
from here import Here
from test_sweep_exact import PACKETS, Made
from test_sweep_running import GUEST

from conftest import Skblab
from skblab.jobs import artefacts
from skblab.jobs.elsewhere import Elsewhere
from skblab.jobs.model import Campaign
from skblab.jobs.packing import Packing
from skblab.jobs.store import Store
from skblab.knobs.applying import Applied
from skblab.knobs.values import Value
from skblab.lab import labroot, paths
from skblab.lab.guest import first
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.sweep import machines, remote, running
from skblab.sweep import plan as plans
from skblab.sweep.booting import Booting
from skblab.sweep.experiment import BASELINE, Experiment
from skblab.sweep.machines import MACHINE, Machines
from skblab.sweep.measure import exact
from skblab.sweep.measure.exact import Counting
from skblab.sweep.plan import Plan
from skblab.sweep.planned import TESTER, Boot
from skblab.sweep.progress import Progress
from skblab.sweep.remote import TAKEN, Distributed, Nodes
from skblab.sweep.request import Parameters, Request
from skblab.sweep.running import Running
from skblab.testbeds import NETNS, Offered, Sending
from skblab.testbeds import Testbed as AnyTestbed
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.run import Environment
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import Part, RunFolder

QUIET = Reporter(quiet=True)
EXPERIMENT = """
name = "few"
question = "?"
[traffic]
frame = [64]
flows = [1]
[[setting]]
name = "strict"
knobs = { rp_filter = 1 }
[[setting]]
name = "isolated"
knobs = { isolcpus = "1" }
[repeats]
least = 2
most = 2
"""


class Up(Made):
    """A testbed and its knobs; what it counts tells its block and its setting."""

    machine = None
    transport = None
    applied = 0

    def __init__(self, boot: Boot) -> None:
        super().__init__()
        self.boot = boot

    def prepare(self, traffic: object) -> None:
        pass

    def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
        self.applied = len(settings)
        return super().apply(settings)

    def offer(self, sending: Sending) -> Offered:
        found = super().offer(sending)
        more = 0 if sending.tester else 100 * self.applied + self.boot.block
        return replace(found, microseconds=found.microseconds + more)


@dataclass
class Guests:
    """Machines that are made up: a boot with the knob `dies` never comes up."""

    kind: object
    experiment: object
    method: object
    boots: object
    labroot: object
    folder: RunFolder
    reporter: object
    keeps: bool = False
    machine: Any = None
    dies: ClassVar[str] = "nothing"
    ups: ClassVar[list[str]] = []

    def undo_of(self, boot: Boot) -> Path:
        return self.folder.path / "undo"

    @contextlib.contextmanager
    def up(self, boot: Boot, log: Path) -> Iterator[AnyTestbed]:
        self.ups.append(f"{boot.block} {boot}".strip())
        if self.dies in str(boot):
            raise GuestError("the guest died")
        yield cast(AnyTestbed, Up(boot))

    def describe(self, boot: Boot, testbed: AnyTestbed) -> None:
        guest = GUEST.model_dump(mode="json")
        self.folder.journal(MACHINE, boot=str(boot), guest=guest, router={"CPUs": "1"})

    def environment(self) -> Environment:
        return synthetic_run.environment()

    def check(self) -> None:
        pass

    def stop(self) -> None:
        pass


@dataclass
class Lab:
    """A store, and what has the boots of a run measured."""

    folder: Path
    store: Store
    made: int = 0

    def begun(self) -> tuple[Plan, RunFolder]:
        """A run that begins; each has an experiment file and results of its own."""
        self.made += 1
        file = self.folder / "few.toml"
        file.write_text(EXPERIMENT)
        request = Request(str(file), exact=True, packets=PACKETS)
        results = self.folder / f"results-{self.made}"
        plan = request.plan()
        run = RunFolder.create(results, "few", request.record(plan))
        (run.path / "experiment.toml").write_text(EXPERIMENT)
        return plan, run

    def distributed(self, plan: Plan, run: RunFolder, submitter: Here) -> Distributed:
        method = Counting(run, QUIET, PACKETS)
        nodes = Nodes(NETNS, plan.experiment, method, BOOTS, ROOT, run, QUIET)
        there = Elsewhere(
            self.store, "local", lambda *_: contextlib.nullcontext(submitter), Packing()
        )
        progress = Progress.read(run.path)
        return Distributed(plan, progress, there, nodes, ())

    def swept(self, plan: Plan, run: RunFolder) -> tuple[Run, Here]:
        submitter = Here(kinds=KINDS)
        self.distributed(plan, run, submitter).measure()
        return load(run.path), submitter


KINDS = {"sweep": remote.begin}
BOOTS = Booting("stock", True, {("stock", True): Kernel(Path("/nowhere"), "ab" * 8)})
ROOT = LabRoot(Path("/nowhere"), "root")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    @contextlib.contextmanager
    def applying(transport: object, *_: object) -> Iterator[object]:
        # The testbed that came up last is its own applier.
        yield ups[-1]

    ups: list[Up] = []
    made = Up.__init__

    def init(self: Up, boot: Boot) -> None:
        made(self, boot)
        ups.append(self)

    monkeypatch.setattr(Up, "__init__", init)
    monkeypatch.setattr(running, "applying", applying)
    # Boot after boot also in one piece, for the last one is the one that is up.
    monkeypatch.setattr(exact, "guests_at_once", lambda: 1)
    monkeypatch.setattr(remote, "Guests", Guests)
    monkeypatch.setattr(labroot, "ensure", lambda reporter: ROOT)
    monkeypatch.setattr(remote, "counting_with", lambda root: {"emulator": "1"})
    monkeypatch.setattr(first, "ensure", lambda root: paths.cache() / "init" / "ab")
    monkeypatch.setattr(machines, "describe", lambda *_: synthetic_run.environment())
    for name in ("pack", "take"):
        monkeypatch.setattr(artefacts, name, lambda *_: None)
    monkeypatch.setattr(Guests, "ups", [])
    monkeypatch.setattr(Guests, "dies", "nothing")
    return Lab(tmp_path, Store.open(tmp_path / "store", make=True))


def in_one_piece(plan: Plan, run: RunFolder) -> Run:
    """Return a run of all boots in turn, in this process."""
    method = Counting(run, QUIET, PACKETS)
    guests = Guests(None, None, method, None, None, run, None)
    Running(plan, method, run, QUIET, Progress.read(run.path)).run(cast(Machines, guests))
    return load(run.path)


def figures(run: Run) -> set[tuple[Any, ...]]:
    """What was counted, whatever the trials' numbers."""
    knobs = {row.trial: (row.knob, row.after) for row in run.settings}
    found = {
        (row.setting, row.block, row.boot_knobs, row.state, row.instructions, knobs.get(row.trial))
        for row in run.trials
    }
    assert len(found) == len(run.trials)
    return found


def test_boots_as_tasks_give_what_boots_in_turn_do(lab: Lab) -> None:
    run, submitter = lab.swept(*lab.begun())
    # Two blocks, each of a boot as it comes and of one with a CPU isolated.
    assert sum(submitter.submitted) >= 1 and len(Guests.ups) == 4
    assert [row.trial for row in run.trials] == list(range(len(run.trials)))
    assert {row.state for row in run.trials} == {"good"}
    assert {row.setting for row in run.trials} >= {TESTER, BASELINE, AGAIN, "strict", "isolated"}
    assert figures(run) == figures(in_one_piece(*lab.begun()))
    # Events tell of the trials by the numbers that they have here.
    of_trials = [
        number
        for event in run.journal
        if event.event == "recorded"
        for number in (event.model_extra or {})["trials"]
    ]
    assert sorted(of_trials) == [row.trial for row in run.trials]
    assert [event.event for event in run.journal].count(TAKEN) == 4


def test_what_a_store_has_is_not_measured_again(lab: Lab) -> None:
    first, _ = lab.swept(*lab.begun())
    ups = len(Guests.ups)
    again, submitter = lab.swept(*lab.begun())
    assert (len(Guests.ups), submitter.submitted) == (ups, [])
    assert figures(again) == figures(first)


def test_a_client_that_was_killed_goes_on_with_what_is_missing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, run = lab.begun()
    adopt, left = RunFolder.adopt, iter([True] * 3)

    def killed(self: RunFolder, part: Part) -> int:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return adopt(self, part)

    monkeypatch.setattr(RunFolder, "adopt", killed)
    with pytest.raises(KeyboardInterrupt):
        lab.swept(plan, run)
    monkeypatch.setattr(RunFolder, "adopt", adopt)
    whole, submitter = lab.swept(plan, RunFolder.open(run.path))
    assert submitter.submitted == [] and len(Guests.ups) == 4
    assert figures(whole) == figures(in_one_piece(*lab.begun()))


def test_a_way_of_booting_that_never_comes_up_is_invalid_and_others_are_not(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guests, "dies", "isolcpus")
    run, _ = lab.swept(*lab.begun())
    states = {(row.setting, row.state) for row in run.trials if row.boot_knobs}
    assert states == {(TESTER, "invalid"), ("isolated", "invalid")}
    assert {row.state for row in run.trials if not row.boot_knobs} == {"good"}


def test_a_task_that_fails_is_said_of_its_trials(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = remote._sweep

    def failing(place: int, *there: *tuple[Any, ...]) -> remote.Swept:
        if place == 1:
            raise SkblabError("no space left on device")
        return sweep(place, *there)

    monkeypatch.setattr(remote, "_sweep", failing)
    plan, run = lab.begun()
    found, _ = lab.swept(plan, run)
    boot = plan.boots[1]
    invalid = [row for row in found.trials if row.state == "invalid"]
    assert len(invalid) == sum(len(setting.measurements) for setting in boot.settings)
    assert {(row.block, row.boot_knobs) for row in invalid} == {(boot.block, str(boot))}
    assert all("no space left on device (the last of 3 tries)" in row.reason for row in invalid)


def test_a_node_that_counts_in_another_way_does_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, run = lab.begun()
    common = remote.campaign(run, plan, BOOTS, ROOT)
    monkeypatch.setattr(remote, "counting_with", lambda root: {"emulator": "2"})
    wrong = "this node's emulator is 2, and the client's 1"
    with pytest.raises(SkblabError, match=wrong), remote.begin(common, QUIET):
        pytest.fail("it began")


def test_a_key_is_of_all_that_a_figure_depends_on(lab: Lab) -> None:
    plan, run = lab.begun()
    asked = Parameters.of(run)
    common = remote.campaign(run, plan, BOOTS, ROOT)

    def keys(common: Campaign = common, **changes: object) -> set[str]:
        found = remote.tasks(plan, asked.model_copy(update=changes), common)
        assert len(found) == len(plan.boots)
        return {task.key for task in found.values()}

    others = Booting("stock", True, {("stock", True): Kernel(Path("/nowhere"), "cd" * 8)})
    all_keys = [
        keys(),
        keys(packets=2000),
        keys(cpus=2),
        keys(remote.campaign(run, plan, others, ROOT)),
    ]
    assert len(set().union(*all_keys)) == 4 * len(plan.boots)
    assert keys() == all_keys[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["first", "--store", "there"], "--store: expected --exact with it"),
        (["first", "--exact", "--on", "local"], "--on: expected --store with it"),
        (["first", "--exact", "--minutes", "5", "--store", "there"], "--minutes 5 is of this"),
    ],
)
def test_bad_usage(
    skblab_here: Skblab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = skblab_here("sweep", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    # What is refused makes no store.
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_makes_no_store(
    skblab_here: Skblab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = skblab_here("sweep", "first", "--exact", "--store", "there", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "To run it: ./skblab sweep first --exact --store there" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_this_machine_is_refused() -> None:
    table = {"name": "table", "knobs": {"routes": "/tmp/table"}}
    made = Experiment.model_validate({"name": "few", "question": "?", "setting": [table]})
    plan = plans.make(made, exact=True)
    with pytest.raises(UsageError, match="'table': routes = '/tmp/table' is a file of this"):
        remote.require(plan)
