# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps in guests that live and are of no use: they are thrown away, and the run goes on."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import searches
import synthetic_run
from rich.console import Console as Terminal

from retries import no_retries
from skblab.knobs.applying import NotPutBackError, Undo, applying
from skblab.knobs.boot import Start
from skblab.knobs.values import Value
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.console import Console, Finding, Kind
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, Update
from skblab.machine.device import Machine
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport, TransportError
from skblab.machine.transport.base import Done
from skblab.sweep import machines, plan
from skblab.sweep.booting import Booting
from skblab.sweep.experiment import BASELINE, Experiment
from skblab.sweep.machines import Guests
from skblab.sweep.planned import TESTER, Boot, Measurement
from skblab.sweep.progress import DEATHS, Key, Progress
from skblab.sweep.running import BOOTS, Running
from skblab.testbeds import NETNS, inventory, netns
from skblab.testbeds import Testbed as AnyTestbed
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.run import Environment
from skblab_analysis.formats.run import Guest as GuestRecord
from skblab_analysis.formats.run import Plan as PlanRecord
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock
from waiting import PATIENCE

EXPERIMENT = Experiment.model_validate(
    {
        "name": "few",
        "question": "?",
        "measure": {"throughput": {}},
        "repeats": {"least": 1, "most": 1},
    }
)
COUNTERS = """\
== interrupts
  CPU0
== softirqs
  CPU0
== snmp
Udp: NoPorts
Udp: 0
== netstat
IpExt: InOctets
IpExt: 0
== device r0
rx_packets: 0
== device r1
rx_packets: 0
== softnet
00 00 00 00 00 00 00 00 00 00 00 00 00
"""
GUEST = synthetic_run.environment().guests["wall"]
LATE = TransportError("no answer within 600 s")


class Answers:
    """The transport of a guest that lives, and where nothing is applied."""

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return Done(0, COUNTERS if "/proc/interrupts" in text else "", "")


@dataclass
class Method:
    """Measures nothing: hangs with some settings, is stopped with others, fails `cold` times."""

    folder: RunFolder
    hangs: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    cold: int = 0
    clock: Clock = "wall"
    title: str = "searching"
    gaps: tuple[str, ...] = ()
    at_once: int = 1
    shares: tuple[Bind, ...] = ()
    best: str = ""
    measured: list[str] = field(default_factory=list)
    # The console of the guest that is up, and what it gets while some settings are measured.
    console: Path = Path("none")
    warns: Mapping[str, str] = field(default_factory=dict)

    def spec(self, begins: Start) -> GuestSpec:
        return GuestSpec()

    def warm_up(self, testbed: AnyTestbed) -> None:
        self.cold -= 1
        if self.cold >= 0:
            raise SkblabError("the generator printed '': expected packets")

    def ready(self, measurement: Measurement, testbed: AnyTestbed) -> None:
        pass

    def measure(
        self, key: Key, measurement: Measurement, testbed: AnyTestbed
    ) -> Callable[[], None]:
        self.measured.append(key.setting)
        say(self.console, self.warns.get(key.setting, ""))
        if key.setting in self.hangs:
            raise LATE
        if key.setting in self.stopped:
            raise KeyboardInterrupt
        part = "tester" if key.setting == TESTER else "whole"
        made = searches.search(key.setting, key.block, 1000.0, traffic=key.traffic)
        return lambda: self.folder.record(made.model_copy(update={"part": part}))

    def unable(self, knobs: Mapping[str, Value]) -> str | None:
        return None

    def enough(self, blocks: int) -> str | None:
        return None


def begin(tmp_path: Path) -> RunFolder:
    return RunFolder.create(
        tmp_path, "few", PlanRecord(experiment="few", seed=1, baseline=BASELINE)
    )


def say(console: Path, text: str) -> None:
    """Have lines on a guest's console."""
    if text:
        with console.open("a") as log:
            log.write("".join(f"[    1.000000] {line}\n" for line in text.splitlines()))


def have_guests(
    monkeypatch: pytest.MonkeyPatch,
    log: Path = Path("none"),
    begins: str = "",
    ends: str = "",
) -> None:
    """Have guests on the console `log`, which say something as they begin and as they end."""

    @contextlib.contextmanager
    def boot(*_: object, **__: object) -> Iterator[object]:
        console = Console(log)
        say(log, begins)
        try:
            yield SimpleNamespace(
                transport=Answers(), spec=SimpleNamespace(cpus=2), console=console
            )
        finally:
            say(log, ends)
            console.poll()
            log.unlink(missing_ok=True)

    monkeypatch.setattr(Guest, "boot", boot)
    monkeypatch.setattr(netns, "staying", contextlib.nullcontext)
    monkeypatch.setattr(machines, "describe_guest", lambda guest: GUEST)


@dataclass
class Bar(Reporter):
    """Keeps what its bar was shown: how much was done, of how much."""

    quiet: bool = True
    shown: list[tuple[float, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def bar(self, title: str, total: float) -> Iterator[Update]:
        self.shown.append((0, total))

        def update(done: float, note: str = "", total: float | None = None) -> None:
            self.shown.append((done, self.shown[-1][1] if total is None else total))

        yield update


def run(
    method: Method,
    monkeypatch: pytest.MonkeyPatch,
    begins: str = "",
    ends: str = "",
    reporter: Reporter | None = None,
) -> Run:
    have_guests(monkeypatch, method.console, begins, ends)
    path = method.folder.path
    progress = Progress.read(path)
    reporter = Reporter(quiet=True) if reporter is None else reporter
    made = Running(plan.make(EXPERIMENT), method, method.folder, reporter, progress)
    kernels = cast(Any, {("stock", True): None})
    boots, root = Booting("stock", True, kernels), cast(LabRoot, None)
    made.run(Guests(NETNS, EXPERIMENT, method, boots, root, method.folder, Reporter(quiet=True)))
    return load(path)


def events(found: Run) -> Counter[str]:
    return Counter(event.event for event in found.journal)


def states(found: Run) -> dict[str, str]:
    return {row.setting: row.state for row in found.trials}


def test_a_trial_that_hangs_twice_is_left_out_and_the_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method(begin(tmp_path), hangs=(AGAIN,))
    found = run(method, monkeypatch)
    assert states(found) == {TESTER: "good", BASELINE: "good", AGAIN: "invalid"}
    assert Counter(method.measured)[AGAIN] == DEATHS
    [invalid] = [row for row in found.trials if row.state == "invalid"]
    assert invalid.reason == f"its testbed was lost 2 times: {LATE}"
    assert events(found)["death"] == events(found)["another"] == DEATHS
    with pytest.raises(AssertionError, match="no answer within"):
        no_retries(found)


def test_a_boot_in_which_something_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(Method(begin(tmp_path), cold=BOOTS - 1), monkeypatch)
    assert set(states(found).values()) == {"good"}
    # No trial was under way, and yet it is known.
    assert (events(found)["death"], events(found)["another"]) == (0, BOOTS - 1)
    with pytest.raises(AssertionError, match="the generator printed"):
        no_retries(found)
    with pytest.raises(GuestError, match="the generator printed"):
        run(Method(begin(tmp_path / "never"), cold=BOOTS), monkeypatch)


def test_a_run_in_which_nothing_was_tried_again_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_retries(run(Method(begin(tmp_path)), monkeypatch))


def test_what_cannot_be_put_back_in_a_guest_is_only_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Undo, "replay", lambda *_: ["mtu: no"])
    assert set(states(run(Method(begin(tmp_path)), monkeypatch)).values()) == {"good"}


def test_what_went_wrong_goes_before_what_cannot_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def replay(*_: object) -> list[str]:
        asked.append(1)
        return ["mtu: no"]

    monkeypatch.setattr(Undo, "replay", replay)

    def applied(error: Exception | None) -> None:
        with applying(cast(Transport, Answers()), Machine(()), tmp_path / "undo.jsonl"):
            if error is not None:
                raise error

    with pytest.raises(NotPutBackError, match=r"not put back: mtu: no; the scripts are in "):
        applied(None)
    with pytest.raises(SkblabError, match="the disk is full"):
        applied(SkblabError("the disk is full"))
    assert len(asked) == 2
    # It would be waited for in vain.
    with pytest.raises(TransportError):
        applied(LATE)
    assert len(asked) == 2


def test_what_the_user_stopped_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin(tmp_path)
    for _ in range(DEATHS):
        with pytest.raises(KeyboardInterrupt):
            run(Method(folder, stopped=(AGAIN,)), monkeypatch)
    # One death after as many attempts is one death.
    hanging = Method(folder, hangs=(AGAIN,))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Reporter, "say", interrupt)
        run(hanging, patch)
    assert Counter(hanging.measured)[AGAIN] == 1
    assert set(states(run(Method(folder), monkeypatch)).values()) == {"good"}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_skblab_that_died_before_it_could_blame_does_so_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Running, "_invalid", interrupt)
        run(Method(folder, hangs=(AGAIN,)), patch)
    method = Method(folder)
    found = run(method, monkeypatch)
    assert states(found) == {TESTER: "good", BASELINE: "good", AGAIN: "invalid"}
    assert AGAIN not in method.measured


WARNING = "WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2"
STALL = "rcu: INFO: rcu_preempt self-detected stall on CPU"


def complaints(found: Run) -> list[tuple[tuple[int, ...], str, list[str]]]:
    return [
        (complaint.trials, complaint.setting, [line.line for line in complaint.lines])
        for complaint in found.complaints()
    ]


def test_a_trial_whose_kernel_complains_is_invalid_and_the_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method(begin(tmp_path), console=tmp_path / "log", warns={BASELINE: WARNING})
    found = run(method, monkeypatch)
    assert states(found) == {TESTER: "good", BASELINE: "invalid", AGAIN: "good"}
    [invalid] = [row for row in found.trials if row.state == "invalid"]
    assert invalid.reason == f"kernel warning (guest): {WARNING}"
    assert complaints(found) == [((invalid.trial,), "", [WARNING])]
    assert method.measured.count(BASELINE) == 1


def test_what_a_kernel_complains_of_outside_of_trials_is_the_boots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method(begin(tmp_path), console=tmp_path / "log")
    found = run(method, monkeypatch, begins=STALL, ends=WARNING)
    assert set(states(found).values()) == {"good"}
    assert [(complaint.where, complaint.lines[0].line) for complaint in found.complaints()] == [
        ("before the first trial of a boot (block 1)", STALL),
        ("after the last trial of a boot (block 1)", WARNING),
    ]
    assert not any(complaint.spoils for complaint in found.complaints())


def test_an_attempt_that_breaks_off_keeps_what_its_kernel_complained_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method(
        begin(tmp_path), hangs=(AGAIN,), console=tmp_path / "log", warns={AGAIN: WARNING}
    )
    found = run(method, monkeypatch)
    assert states(found)[AGAIN] == "invalid"
    assert complaints(found) == [((), AGAIN, [WARNING])] * DEATHS
    assert all(complaint.spoils for complaint in found.complaints())


def test_a_boot_that_does_not_come_up_keeps_what_its_kernel_complained_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_guests(monkeypatch)
    boots, comes_up = iter([False, True]), Guest.boot

    @contextlib.contextmanager
    def boot(*_: object, **__: object) -> Iterator[object]:
        if not next(boots):
            death = GuestError("guest RCU stall")
            death.findings = [Finding(Kind.STALL, STALL)]
            raise death
        with comes_up(cast(Any, None), cast(Any, None), cast(Any, None)) as guest:
            yield guest

    method = Method(begin(tmp_path))
    monkeypatch.setattr(sys.modules[__name__], "have_guests", lambda *_: None)
    monkeypatch.setattr(Guest, "boot", boot)
    found = run(method, monkeypatch)
    assert set(states(found).values()) == {"good"}
    [complaint] = found.complaints()
    assert complaint.where == "before the first trial of a boot (block 1)"
    assert complaint.lines[0].line == STALL


def two_blocks() -> Experiment:
    return EXPERIMENT.model_copy(
        update={"repeats": EXPERIMENT.repeats.model_copy(update={"least": 2, "most": 2})}
    )


def test_boots_side_by_side_leave_what_boots_in_turn_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EXPERIMENT", two_blocks())
    together = threading.Barrier(2, timeout=30)

    class Together(Method):
        def warm_up(self, testbed: AnyTestbed) -> None:
            # Both are up at once, or this breaks.
            together.wait()

    found = run(Together(begin(tmp_path), at_once=2), monkeypatch)
    assert {(row.setting, row.block, row.state) for row in found.trials} == {
        (name, block, "good") for name in (TESTER, BASELINE, AGAIN) for block in (0, 1)
    }
    assert len(found.trials) == 6
    for block in (0, 1):
        # In each the tester comes first, as it would alone.
        attempts = [event.model_dump() for event in found.journal if event.event == "attempt"]
        assert (
            next(attempt["setting"] for attempt in attempts if attempt["block"] == block) == TESTER
        )


def test_a_boot_that_fails_ends_those_beside_it_and_blames_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EXPERIMENT", two_blocks())
    ended = threading.Event()
    monkeypatch.setattr(Guest, "end_all", ended.set)
    began = threading.Event()

    class Failing(Method):
        def measure(
            self, key: Key, measurement: Measurement, testbed: AnyTestbed
        ) -> Callable[[], None]:
            if key.block == 0:
                began.wait(PATIENCE)
                raise OSError(28, "No space left on device")
            began.set()
            # A guest that is ended while it is waited for.
            assert ended.wait(PATIENCE)
            raise LATE

    folder = begin(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        run(Failing(folder, at_once=2), monkeypatch)
    found = load(folder.path)
    assert not found.trials
    assert "death" not in {event.event for event in found.journal}
    # Nothing was said against what was under way.
    assert Counter(states(run(Method(folder, at_once=2), monkeypatch)).values())["invalid"] == 0


def test_what_a_boot_is_is_known_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts are of each way of booting, from the journal: another process may have had it."""
    folder = begin(tmp_path)
    have_guests(monkeypatch)
    facts = {"CPUs": "2", "version": "SMP"}
    monkeypatch.setattr(inventory, "read", lambda *_: dict(facts))
    kernels = cast(Any, {("stock", True): None, ("rt", True): SimpleNamespace(release="6.12-rt")})
    there = (Booting("stock", True, kernels), cast(LabRoot, None), folder, Reporter(quiet=True))

    def guests() -> Guests:
        return Guests(NETNS, EXPERIMENT, Method(folder), *there)

    killed = guests()
    for knobs, version in (({"preempt": "rt"}, "SMP PREEMPT_RT"), ({}, "SMP"), ({}, "never read")):
        facts["version"] = version
        boot = Boot(0, knobs, ())
        with killed.up(boot, tmp_path / "log") as testbed:
            killed.describe(boot, testbed)

    def describe(built: object, guests: dict[Clock, GuestRecord]) -> Environment:
        return synthetic_run.environment().model_copy(update={"guests": guests})

    monkeypatch.setattr(machines, "describe", describe)
    found = guests().environment()
    assert found.guests == {"wall": GUEST}
    # What names the kernel's content stays.
    assert found.more == synthetic_run.environment().more | {
        "kernel rt": "6.12-rt",
        "router CPUs": "2",
        "router version": "SMP",
        "router version, with preempt=rt": "SMP PREEMPT_RT",
    }


def budgeted(most: int, blocks: float) -> Experiment:
    """Return what measures so many blocks, with a budget for fewer by the estimate."""
    repeats = EXPERIMENT.repeats.model_copy(update={"least": most, "most": most})
    found = EXPERIMENT.model_copy(update={"repeats": repeats})
    minutes = blocks * plan.make(found).seconds(1) / 60
    budget = repeats.model_copy(update={"budget_minutes": minutes})
    return found.model_copy(update={"repeats": budget})


@pytest.mark.parametrize(
    ("ends", "totals"),
    [
        # Blocks are quicker than estimated: one comes after the other.
        (None, [6, 9, 12]),
        # They are slower: the second one does not begin.
        (1, [6, 3]),
        # As estimated.
        (2, [6]),
    ],
)
def test_the_bar_counts_no_blocks_that_the_budget_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: int | None, totals: list[int]
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EXPERIMENT", budgeted(4, 2.5))

    class Budgeted(Method):
        def enough(self, blocks: int) -> str | None:
            return "the budget is spent" if blocks == ends else None

    bar = Bar()
    found = run(Budgeted(begin(tmp_path)), monkeypatch, reporter=bar)
    assert list(dict.fromkeys(total for _, total in bar.shown)) == totals
    # Of each block the tester, and the baseline twice.
    assert len(found.trials) == 3 * (ends or 4) == bar.shown[-1][0]


def test_a_bar_whose_total_changes_goes_on() -> None:
    file = io.StringIO()
    with Reporter(Terminal(file=file, highlight=False)).bar("searching", 10) as update:
        update(5, total=5)
    assert "searching: 100 % after 0 s" in file.getvalue()


def test_a_block_that_was_let_in_is_measured_whole() -> None:
    """Its other boots ask while the first one comes up, and the budget is spent by then."""
    answers = iter([None, "the budget is spent"])
    running = SimpleNamespace(
        _enough=False,
        _let_in=set(),
        _expected=set(),
        progress=SimpleNamespace(begun=lambda block: False),
        method=SimpleNamespace(enough=lambda block: next(answers)),
    )
    assert not Running._over(cast(Running, running), 1)
    assert not Running._over(cast(Running, running), 1)
