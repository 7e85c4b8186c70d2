# SPDX-License-Identifier: GPL-2.0-or-later
"""A labgrid place is one job's at a time, and free again whatever becomes of the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_sweep_wall import Guest, Sweep, experiment

from labgrid_here import WITH_US, Here, coordinator
from skblab.lab.reporter import Reporter
from skblab.testbeds import Sending, hostsfile, place
from skblab.testbeds.base import Offered
from skblab.testbeds.hostsfile import Labgrid
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.load import load
from waiting import PATIENCE, until

HOSTS = """\
[router]
ssh = "root@router"
in = "eth1"
out = "eth2"
[tester]
ssh = "root@tester"
generator = "eth1"
sink = "eth2"
[labgrid]
"""
# What is promised of a job that was killed.
FREE_SECONDS = 60.0
# A user: has the place so often, and notes when that began and ended.
USER = """
import sys, time
from skblab.lab.reporter import Reporter
from skblab.testbeds import place
from skblab.testbeds.hostsfile import Labgrid

address, job, notes, runs, seconds = sys.argv[1:]
for number in range(int(runs)):
    asked = Labgrid(place="bench1", coordinator=address)
    with place.held(asked, f"{job}-{number}", Reporter()) as booked:
        with open(notes, "a") as file:
            print(job, "begins", time.monotonic_ns(), file=file, flush=True)
            time.sleep(float(seconds))
            booked.check()
            print(job, "ends", time.monotonic_ns(), file=file, flush=True)
"""


@pytest.fixture(scope="module")
def daemon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Here]:
    """A coordinator for all tests that leave its places free."""
    if not request.config.getoption("--full"):
        pytest.skip("labgrid is installed and its coordinator started by make test-all alone")
    with coordinator(tmp_path_factory.mktemp("labgrid")) as (found, _):
        yield found


@pytest.fixture
def here(daemon: Here, monkeypatch: pytest.MonkeyPatch) -> Here:
    """The same, for a user who is anna there."""
    for name, value in daemon.environment("anna").items():
        monkeypatch.setenv(name, value)
    return daemon


def user(here: Here, name: str, notes: Path, runs: int, seconds: float) -> subprocess.Popen[str]:
    words = (here.address, name, str(notes), str(runs), str(seconds))
    return subprocess.Popen(
        [*WITH_US, sys.executable, "-c", USER, *words],
        env=here.environment(name),
        stderr=subprocess.PIPE,
        text=True,
    )


def overlaps(notes: str) -> list[str]:
    """Return the lines at which somebody began who was not alone."""
    found, there = [], set[str]()
    for line in sorted(notes.splitlines(), key=lambda line: int(line.split()[2])):
        name, what, _ = line.split()
        if what == "begins":
            if there:
                found.append(line)
            there.add(name)
        else:
            there.remove(name)
    return found


def test_an_overlap_is_seen() -> None:
    assert not overlaps("a begins 1\na ends 2\nb begins 3\nb ends 4\n")
    assert overlaps("a begins 1\na ends 3\nb begins 2\nb ends 4\n") == ["b begins 2"]


def contend(here: Here, notes: Path, runs: int, seconds: float) -> None:
    """Have two users have the place so often each; they are never there at the same time."""
    names = ("anna", "bert")
    users: list[subprocess.Popen[str]] = []
    try:
        # They begin to contend at one moment, however long each takes to start.
        asked = Labgrid(place="bench1", coordinator=here.address)
        with place.held(asked, "first", Reporter(quiet=True)) as booked:
            assert booked is not None
            users += [user(here, name, notes, runs, seconds) for name in names]
            for one in users:
                assert one.stderr is not None
                said = one.stderr.readline()
                assert f"waiting for the labgrid place bench1: {booked.name} has it" in said
            assert not notes.exists()
        for one in users:
            _, said = one.communicate(timeout=PATIENCE * runs)
            assert one.returncode == 0, said
    finally:
        for one in users:
            one.kill()
            one.wait()
    text = notes.read_text()
    assert [text.count(f"{name} ends") for name in names] == [runs, runs]
    assert not overlaps(text)
    assert "acquired: None" in here.client("-p", "bench1", "show", user="carl")


@pytest.mark.process
@pytest.mark.slow
def test_two_users_have_a_place_in_turn(here: Here, tmp_path: Path) -> None:
    contend(here, tmp_path / "notes", 2, 0.3)


@pytest.mark.process
@pytest.mark.slow
def test_two_users_have_a_place_in_turn_fifty_times(here: Here, tmp_path: Path) -> None:
    began = time.monotonic()
    contend(here, tmp_path / "notes", 25, 0.2)
    took = time.monotonic() - began
    sys.stdout.write(f"50 runs of two users in {took:.0f} s, no overlap\n")


@pytest.mark.process
@pytest.mark.slow
def test_a_killed_job_frees_its_place(here: Here, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    holder = user(here, "anna", notes, 1, 600)
    waiter = third = None
    try:
        until("the first one has it", PATIENCE, notes.exists)
        waiter = user(here, "bert", tmp_path / "none", 1, 600)
        assert waiter.stderr is not None
        assert "desk/anna-skblab-anna-0-" in waiter.stderr.readline()
        # Who waited before and is gone is in nobody's way either.
        third = user(here, "carl", tmp_path / "third", 1, 0)
        assert third.stderr is not None
        third.stderr.readline()
        waiter.kill()
        holder.kill()
        killed = time.monotonic()
        until("the next one has it", FREE_SECONDS, (tmp_path / "third").exists)
        took = time.monotonic() - killed
        sys.stdout.write(f"another job had the place {took:.1f} s after SIGKILL\n")
        assert third.wait(PATIENCE) == 0
        assert not (tmp_path / "none").exists()
    finally:
        for one in filter(None, (holder, waiter, third)):
            one.kill()
            one.wait()


@dataclass
class Kicked(Guest):
    """Guests in whose second offer something happens."""

    then: Sequence[object] = ()

    def offer(self, sending: Sending) -> Offered:
        if self.offers == 1:
            for one in self.then:
                assert callable(one)
                one()
        return super().offer(sending)


@pytest.mark.process
@pytest.mark.slow
def test_a_sweep_stops_when_its_place_is_lost_and_goes_on_later(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Labgrid(filter={"board": "x"}, coordinator=here.address)
    with place.held(asked, "few", Reporter(quiet=True)) as booked:
        assert booked is not None
        booked.check()
        shown = here.client("-p", "bench1", "show", user="bert")
        assert f"acquired: {booked.name}" in shown
        # What is within has it already.
        with place.held(asked, "few", Reporter(quiet=True)) as same:
            assert same is booked
        booked.check()

        def kick() -> None:
            here.client("-p", "bench1", "release", "-k", user="bert")

        def noticed() -> None:
            until("it is noticed", PATIENCE, booked.lost)

        sweep = Sweep.begin(tmp_path, experiment(), Kicked(then=(kick, noticed)))
        sweep.may_begin = booked.check
        with pytest.raises(SkblabError) as stopped:
            sweep.run(monkeypatch)
    said = str(stopped.value)
    assert said.startswith("the labgrid place bench1 is not ours any more: somebody released it at")
    assert "\n" not in said
    # The trial in which it happened came to its end, and no other one began.
    assert len(load(sweep.path).trials) == 1
    with place.held(asked, "few", Reporter(quiet=True)) as again:
        assert again is not None
        sweep.may_begin = again.check
        assert len(sweep.run(monkeypatch).trials) == 4


@pytest.mark.process
@pytest.mark.slow
def test_a_signal_or_an_error_frees_a_place(here: Here, tmp_path: Path) -> None:
    for number, what in enumerate((signal.SIGINT, signal.SIGTERM)):
        notes = tmp_path / f"notes-{number}"
        # To all of its group, as Ctrl-C in a terminal does.
        one = subprocess.Popen(
            [*WITH_US, sys.executable, "-c", USER, here.address, "anna", str(notes), "1", "600"],
            env=here.environment("anna"),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            until("it has it", PATIENCE, notes.exists)
            os.killpg(one.pid, what)
            assert one.wait(PATIENCE) != 0
        finally:
            one.kill()
            one.wait()
    asked = Labgrid(place="bench1", coordinator=here.address)
    with pytest.raises(ZeroDivisionError), place.held(asked, "few", Reporter(quiet=True)):
        raise ZeroDivisionError
    shown = here.client("-p", "bench1", "show", user="bert")
    assert "acquired: None" in shown
    assert "reservation" not in shown


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_coordinator_that_restarts_has_no_locks(tmp_path: Path) -> None:
    with coordinator(tmp_path) as (other, daemon):
        asked = Labgrid(place="bench1", coordinator=other.address)
        with place.held(asked, "few", Reporter(quiet=True)) as booked:
            assert booked is not None
            daemon.kill()
            daemon.wait()
            with coordinator(tmp_path, int(other.address.rpartition(":")[2])):
                until("it is noticed", PATIENCE, booked.lost)
            assert "coordinator was restarted" in booked.lost()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"place": "bench"}, "there is no place bench: expected one of labgrid's (bench1, bench2)"),
        ({"filter": {"rack": "a"}}, "2 places have the tags rack=a: bench1, bench2; expected tags"),
        ({"filter": {"board": "z"}}, "0 places have the tags board=z; expected tags"),
    ],
    ids=["name", "several", "none"],
)
def test_a_place_that_is_not_one_is_refused(
    here: Here, asked: dict[str, object], said: str
) -> None:
    wanted = Labgrid.model_validate({**asked, "coordinator": here.address})
    with (
        pytest.raises(UsageError) as refused,
        place.held(wanted, "few", Reporter(quiet=True)),
    ):
        pass
    assert said in str(refused.value)


def test_without_labgrid_nothing_is_booked(monkeypatch: pytest.MonkeyPatch) -> None:
    with place.held(None, "few", Reporter(quiet=True)) as booked:
        assert booked is None
    monkeypatch.setenv("PATH", "/nowhere")
    asked = Labgrid(place="bench1")
    with (
        pytest.raises(UsageError, match="labgrid is not here: install it"),
        place.held(asked, "few", Reporter(quiet=True)),
    ):
        pass


def test_each_job_has_a_name_that_labgrid_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LG_USERNAME", "a/b")
    monkeypatch.setenv("LG_HOSTNAME", "desk")
    one, other = place.owner("quick run"), place.owner("quick run")
    assert one != other
    assert one.startswith("desk/a-b-skblab-quick-run-")
    assert one.count("/") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected either place or filter"),
        ('place = "a"\nfilter = { board = "x" }', "expected either place or filter"),
        ('place = "a b"', "labgrid.place: 'a b': expected a name without blanks"),
        ("filter = {}", "labgrid.filter: expected a tag, such as"),
        ('filter = { B = "x" }', "labgrid.filter: 'B': expected the name of a tag, such as board"),
        ('filter = { board = "=" }', "'=': expected a name without blanks"),
    ],
)
def test_what_is_wrong_with_a_place_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(HOSTS + text)
    with pytest.raises(UsageError) as refused:
        hostsfile.read(file)
    assert said in str(refused.value)


def test_a_file_remembers_its_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(HOSTS + 'place = "bench1"\n')
    monkeypatch.setenv("LG_COORDINATOR", "there:1")
    found = hostsfile.read(file)
    assert found.labgrid == Labgrid(place="bench1", coordinator="there:1")
    assert hostsfile.HostsFile.model_validate_json(found.model_dump_json(by_alias=True)) == found
    # It is the same testbed, however its machines are booked.
    file.write_text(HOSTS.replace("[labgrid]\n", ""))
    assert hostsfile.read(file).key == found.key
