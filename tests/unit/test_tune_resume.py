# SPDX-License-Identifier: GPL-2.0-or-later
"""A tune that is stopped goes on: the same trials, each once, and the same decision."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import test_sweep_wall as walls
import test_tune as tunes
from test_report import fake_gnuplot
from typer.testing import CliRunner, Result

from kills import killed_after
from skblab.cli import app
from skblab.knobs.applying import Applier
from skblab.knobs.values import Value
from skblab.lab.guest.errors import GuestError
from skblab.lab.reporter import Reporter
from skblab.sweep.progress import Key
from skblab.sweep.request import Request
from skblab.testbeds import Offered, Sending
from skblab.testbeds.netns import Netns
from skblab.tune import deriving, state, sweeping
from skblab.tune.asked import Asked
from skblab.tune.state import Progress
from skblab_analysis.base.errors import SkblabError, Stopped, UsageError
from skblab_analysis.load import Run, load
from skblab_analysis.throughput.rows import FoundRow

TUNED = "tune-few-*"


def both_help(knobs: Mapping[str, Value]) -> float:
    """How slow a router is that is fast with both of two settings only."""
    return 0.0 if tunes.is_set(knobs, "no filter", "budget") else 1.0


@dataclass
class Lab:
    """A place for results, in which tunes are begun, stopped and gone on with."""

    path: Path
    patch: pytest.MonkeyPatch
    text: str = tunes.SEVERAL

    def __post_init__(self) -> None:
        self.path.mkdir()
        self.guests: list[object] = [tunes.Among(slow=both_help)]
        self.file = walls.as_if_booted(self.path, self.patch, self._guest)
        self.file.write_text(self.text)
        self.patch.setattr(sweeping, "gnuplot", lambda root: fake_gnuplot)
        self.patch.setattr(deriving, "MOST_BLOCKS", 3)

    @contextlib.contextmanager
    def _guest(self, *_: object) -> Iterator[tuple[Netns, Applier]]:
        one = self.guests.pop(0) if len(self.guests) > 1 else self.guests[0]
        if isinstance(one, BaseException):
            raise one
        yield cast(Netns, one), cast(Applier, one)

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def folder(self) -> Path:
        [found] = self.results.glob(TUNED)
        return found

    def call(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["tune", *words, "--json"])

    def begin(self) -> Result:
        return self.call(str(self.file), "--testbed", "netns", "--minutes", "600")

    def resume(self) -> Result:
        return self.call("--resume", str(self.folder))

    def stopped(self) -> list[str]:
        """Begin a tune that a signal stops, and return what it said."""
        said: list[str] = []
        with self.patch.context() as patch, pytest.raises(Stopped):
            patch.setattr(Reporter, "say", lambda _, text: said.append(text))
            self.begin()
        return said

    def runs(self) -> dict[str, Run]:
        """Return the run of each stage."""
        swept = json.loads((self.folder / state.FILE).read_text())["swept"]
        return {one["stage"]: load(self.results / one["run"]) for one in swept}


def decided(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.exception
    document = json.loads(done.stdout)
    return {name: document[name] for name in ("settings", "confirmed", "why_none")}


def stored(runs: Mapping[str, Run]) -> dict[str, list[tuple[object, ...]]]:
    """Return what trials are stored of each stage, with the rates that were found."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for stage, run in runs.items():
        found[stage] = [
            (
                *(row.setting, row.block, row.measure, row.traffic, row.state),
                *(each.model_dump_json() for each in run.rows(FoundRow) if each.trial == row.trial),
            )
            for row in run.trials
        ]
    return found


def nothing_twice(runs: Mapping[str, Run]) -> None:
    """No trial that was recorded is attempted again, and each is there once."""
    for run in runs.values():
        keys = [Key.of_row(row) for row in run.trials]
        assert len(keys) == len(set(keys))
        done: set[Key] = set()
        order = iter(keys)
        for event in run.journal:
            if event.event == "attempt":
                told = event.model_dump()
                named = {name: told[name] for name in Key.__dataclass_fields__}
                assert Key(**named) not in done
            elif event.event == "recorded":
                done.add(next(order))
        assert done == set(keys)


@pytest.fixture
def whole(tmp_path: Path) -> tuple[dict[str, Any], dict[str, list[tuple[object, ...]]], str]:
    """Return what a tune that nobody stops decides and stores, and its page."""
    with pytest.MonkeyPatch.context() as patch:
        lab = Lab(tmp_path / "whole", patch)
        result = decided(lab.begin())
        assert sorted(result["settings"]) == ["budget", "no filter"]
        runs = lab.runs()
        nothing_twice(runs)
        assert list(runs) == ["sweep", "each", "confirm"]
        return result, stored(runs), page(lab)


def page(lab: Lab) -> str:
    """Return the advice without the names of runs, which have the time."""
    return (lab.folder / "advice.md").read_text().partition("## Where the figures are")[0]


@pytest.mark.parametrize("most", [4, pytest.param(24, marks=pytest.mark.slow)])
def test_killed_at_many_moments_it_decides_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: tuple[dict[str, Any], dict[str, list[tuple[object, ...]]], str],
    most: int,
) -> None:
    lab = Lab(tmp_path / "killed", monkeypatch)
    chosen = random.Random(4711)
    kills, moments = 0, set[int]()
    while kills < most:
        begun = list(lab.results.glob(TUNED)) if lab.results.exists() else []
        steps = chosen.randrange(50, 400 if most < 10 else 280)
        go_on = lab.resume if begun else lab.begin
        if not killed_after(steps, chosen.uniform(1e-6, 2e-3), go_on):
            break
        kills += 1
        if not (begun or list(lab.results.glob(f"{TUNED}/{state.FILE}"))):
            # Nothing was written down: whoever asked for it asks again.
            for left in lab.results.glob(TUNED):
                left.rmdir()
            continue
        moments.add(sum(len(run.trials) for run in lab.runs().values()))
    assert kills > most // 2 and len(moments) > 2
    result, trials, told = whole
    if not json.loads((lab.folder / state.FILE).read_text())["finished"]:
        assert decided(lab.resume()) == result
    assert stored(lab.runs()) == trials
    assert page(lab) == told
    nothing_twice(lab.runs())
    ended = lab.resume()
    assert isinstance(ended.exception, UsageError)
    assert "it has ended, and its advice is there; to tune again: ./skblab tune " in str(
        ended.exception
    )


class AtSignal(tunes.Among):
    """A guest in whose trial of this number the user stops the tune."""

    at: int = 20

    def offer(self, sending: Sending) -> Offered:
        if self.offers == self.at:
            raise Stopped(2)
        return super().offer(sending)


def test_a_tune_that_its_user_stops_says_how_it_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: tuple[dict[str, Any], dict[str, list[tuple[object, ...]]], str],
) -> None:
    lab = Lab(tmp_path / "stopped", monkeypatch)
    lab.guests = [AtSignal(slow=both_help)]
    said = lab.stopped()
    assert said[-1] == f"go on with: ./skblab tune --resume {lab.folder}"
    assert not any("skblab resume" in one for one in said)
    # The sweep alone is gone on with by another command, which says so.
    other = CliRunner().invoke(app, ["resume", str(lab.folder)])
    assert isinstance(other.exception, UsageError) and "./skblab tune --resume" in str(
        other.exception
    )
    lab.guests = [tunes.Among(slow=both_help)]
    result, trials, told = whole
    assert decided(lab.resume()) == result
    assert (stored(lab.runs()), page(lab)) == (trials, told)
    nothing_twice(lab.runs())


DEAD = GuestError("guest panicked: Oops")


@pytest.mark.parametrize("boots", [0, 2], ids=["first", "third block"])
def test_a_first_sweep_whose_guests_die_is_gone_on_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: tuple[dict[str, Any], dict[str, list[tuple[object, ...]]], str],
    boots: int,
) -> None:
    lab = Lab(tmp_path / "dead", monkeypatch)
    lab.guests = [*(tunes.Among(slow=both_help) for _ in range(boots)), DEAD]
    done = lab.begin()
    assert isinstance(done.exception, GuestError)
    lab.guests = [tunes.Among(slow=both_help)]
    result, trials, _ = whole
    assert decided(lab.resume()) == result
    assert stored(lab.runs()) == trials
    nothing_twice(lab.runs())


def test_a_last_sweep_whose_guests_die_is_tried_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: tuple[dict[str, Any], dict[str, list[tuple[object, ...]]], str],
) -> None:
    lab = Lab(tmp_path / "dead", monkeypatch)
    # Three blocks of each of two sweeps, and one of the third.
    lab.guests = [*(tunes.Among(slow=both_help) for _ in range(7)), DEAD]
    done = lab.begin()
    assert decided(done)["settings"] == []
    assert "could not be measured again: guest panicked" in decided(done)["why_none"]
    assert "go on with: ./skblab tune --resume" in done.stderr
    lab.guests = [tunes.Among(slow=both_help)]
    result, trials, told = whole
    assert decided(lab.resume()) == result
    assert (stored(lab.runs()), page(lab)) == (trials, told)
    nothing_twice(lab.runs())


def test_what_was_decided_without_a_sweep_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the last sweep has begun, one that failed before it is not tried again."""

    def filter_helps(knobs: Mapping[str, Value]) -> float:
        return 0.0 if tunes.is_set(knobs, "no filter") else 1.0

    def some(count: int) -> list[object]:
        return [tunes.Among(slow=filter_helps) for _ in range(count)]

    lab = Lab(tmp_path / "few", monkeypatch)
    lab.guests = [*some(3), DEAD, DEAD, DEAD, *some(1), Stopped(15)]
    lab.stopped()
    before = json.loads((lab.folder / state.FILE).read_text())["swept"]
    assert [one["failed"] for one in before] == ["", "guest panicked: Oops", ""]
    lab.guests = some(1)
    assert decided(lab.resume())["settings"] == ["no filter"]
    assert json.loads((lab.folder / state.FILE).read_text())["swept"] == before
    assert "What settings add to each other was not measured: guest panicked" in page(lab)
    # Where the last one has not begun, it is tried again.
    lab = Lab(tmp_path / "other", monkeypatch)
    lab.guests = [*some(3), DEAD, DEAD, DEAD, *some(1)]
    with monkeypatch.context() as patch:
        patch.setattr(deriving, "confirming", _stop)
        lab.stopped()
    lab.guests = some(1)
    assert decided(lab.resume())["settings"] == ["no filter"]
    assert [
        one["failed"] for one in json.loads((lab.folder / state.FILE).read_text())["swept"]
    ] == [*("", "", "")]
    nothing_twice(lab.runs())


def _stop(*_: object, **__: object) -> None:
    raise Stopped(15)


def test_what_cannot_be_gone_on_with_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path / "few", monkeypatch)
    lab.guests = [AtSignal(slow=both_help)]
    lab.stopped()

    def said(*words: str) -> str:
        done = lab.call(*words)
        assert isinstance(done.exception, UsageError), done.exception
        return str(done.exception)

    folder = str(lab.folder)
    assert said("--resume", str(tmp_path)).startswith(f"--resume {tmp_path}: it has no tune.json")
    for more in (["quick"], ["--for", "latency"], ["--minutes", "9"], ["--dry-run"]):
        assert said("--resume", folder, *more).startswith("--resume: the folder has all other")
    assert said() == "FILE is missing; or name a tune that was stopped: --resume FOLDER"
    other = lab.folder / "sweep.toml"
    text = other.read_text()
    other.write_text(text.replace("few-tune", "new-tune"))
    assert "would go on with another experiment than" in said("--resume", folder)
    other.write_text(text)
    (lab.folder / state.FILE).write_text("{}")
    done = lab.call("--resume", folder)
    assert isinstance(done.exception, SkblabError) and state.FILE in str(done.exception)


def test_a_tune_that_cannot_begin_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path / "few", monkeypatch)
    done = lab.call(str(lab.file), "--testbed", "netns", "--minutes", "1")
    assert isinstance(done.exception, UsageError)
    assert "expected at least --minutes" in str(done.exception)
    assert list(lab.results.iterdir()) == []


HOSTS = """
[router]
ssh = "root@router"
in = "a0"
out = "{out}"
[tester]
ssh = "root@tester"
generator = "b0"
sink = "b1"
"""


def test_other_machines_are_not_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(HOSTS.format(out="a1"))
    folder = tmp_path / "tune-few-20260101-000000"
    folder.mkdir()
    request = Request("few.toml", testbed="hosts", hosts=file)
    asked = Asked("few.toml", "throughput", 60.0, request)
    made = Progress.begin(folder, asked, tunes.experiment())
    again, found = Progress.open(folder).asked()
    assert (again.goal, again.minutes, again.request.testbed) == ("throughput", 60.0, "hosts")
    assert again.request.machines == request.machines
    assert found == tunes.experiment()
    assert made.again.endswith(f"--minutes 60 --testbed hosts --hosts {file}")
    file.write_text(HOSTS.format(out="a2"))
    with pytest.raises(UsageError, match="names other machines or ports than when it began"):
        Progress.open(folder).asked()
