# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels are watched from look to look, and what they complain of is of the trial in between."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import synthetic_run

from skblab.bench import measure, plan, programs, wall
from skblab.bench import run as bench
from skblab.demo.run import Demo
from skblab.lab import tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.console import Console, Finding, Kind
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.recording import begins, recording, watched
from skblab.machine.transport import Transport, TransportError
from skblab.machine.transport.base import Done
from skblab.machine.watch import HostLog, Watch, heard_of
from skblab.probe import environment, layers, loads, targets
from skblab.probe.cost import wall as cost
from skblab.probe.loads import Load
from skblab.selftests import guestrun
from skblab.sweep.request import Parameters, unfinished
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.errors import SkblabError, Stopped, UsageError
from skblab_analysis.formats.cost import Probe
from skblab_analysis.load import load
from skblab_analysis.report import terminal
from skblab_analysis.runfolder import RunFolder

WARNING = "WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2"
LATER = "NETDEV WATCHDOG: CPU: 0: transmit queue 0 timed out 5000 ms"
REPORTER = Reporter(quiet=True)
NONE = cast(Any, None)


def say(log: Path, *lines: str) -> None:
    with log.open("a") as console:
        console.writelines(f"[    1.000000] {line}\n" for line in lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "console.log"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "demo", synthetic_run.plan(), synthetic=True)


def lines(watch: Watch) -> list[tuple[str, str]]:
    return [(heard.machine, heard.line) for heard in watch.look()]


def test_each_look_tells_what_is_new_of_every_machine(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    watch = Watch({"router": Console(log), "tester": Console(other)})
    assert lines(watch) == []
    say(log, "brought up", WARNING)
    say(other, LATER)
    assert lines(watch) == [("router", WARNING), ("tester", LATER)]
    assert lines(watch) == []
    say(other, WARNING)
    assert lines(watch) == [("tester", WARNING)]
    # What ends a guest is among them.
    say(log, "Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI")
    assert [heard.kind for heard in watch.look()] == ["oops"]


def test_whoever_has_no_record_refuses(log: Path) -> None:
    watch = Watch({"guest": Console(log)})
    watch.refuse("nothing was said")
    say(log, WARNING)
    with pytest.raises(RefusedError, match=r"it is worth nothing: kernel warning \(guest\): WARN"):
        watch.refuse("it is worth nothing")


class Dmesg:
    """A host whose kernel log has these lines, if it can be read."""

    def __init__(self, *said: str, status: int = 0) -> None:
        self.said, self.status = list(said), status

    def run(self, argv: list[str]) -> Done:
        assert "dmesg" in argv[-1]
        if self.status < 0:
            raise TransportError("it has gone")
        text = "".join(f"[{n:5}.000001] {line}\n" for n, line in enumerate(self.said))
        return Done(self.status, text, "")

    def log(self) -> HostLog:
        return HostLog(cast(Transport, self))


def test_of_a_host_only_what_is_new_is_told() -> None:
    host = Dmesg(WARNING)
    made = host.log()
    watch = Watch({"router": made})
    assert lines(watch) == []
    host.said += ["eth0: link up", LATER]
    assert lines(watch) == [("router", LATER)]
    assert lines(watch) == []
    # All that was seen has gone from the log meanwhile.
    host.said = [f"line {n}" for n in range(7)] + [WARNING]
    assert lines(watch) == [("router", WARNING)]
    host.said.append(LATER)
    watch.end()
    host.said.append(WARNING)
    assert lines(watch) == [("router", LATER)]


def test_a_host_that_was_silent_is_heard() -> None:
    host = Dmesg()
    watch = Watch({"router": host.log()})
    host.said.append(WARNING)
    assert lines(watch) == [("router", WARNING)]


def test_a_host_whose_log_cannot_be_read_says_so_and_one_that_went_ends() -> None:
    secret = Dmesg(WARNING, status=1).log()
    assert not secret.readable
    secret.poll()
    assert secret.findings == []
    host = Dmesg()
    made = host.log()
    host.status = -1
    with pytest.raises(TransportError):
        made.poll()
    made.end()


def states(folder: RunFolder) -> list[tuple[str, str]]:
    return [(row.state, row.reason) for row in load(folder.path).trials]


def test_what_a_trial_breaks_off_with_has_a_record(folder: RunFolder, log: Path) -> None:
    watch = Watch()
    say(log, LATER)
    with pytest.raises(SkblabError, match="the sender failed"), watched(folder, watch, "wall"):
        begins(folder, watch, guest=Console(log))
        say(log, WARNING)
        raise SkblabError("the sender failed")
    assert states(folder) == [("invalid", f"the sender failed; kernel warning (guest): {WARNING}")]
    # What was before is not the trial's.
    assert [
        (complaint.trials, complaint.where) for complaint in load(folder.path).complaints()
    ] == [
        ((), "before the trial"),
        ((0,), "trial 0"),
    ]


def test_a_trial_that_breaks_off_in_silence_has_none(folder: RunFolder, log: Path) -> None:
    watch = Watch({"guest": Console(log)})
    with pytest.raises(SkblabError), watched(folder, watch, "wall"):
        raise SkblabError("the sender failed")
    assert states(folder) == []


def test_a_guest_that_never_comes_up_has_one(folder: RunFolder) -> None:
    death = GuestError("guest oops: BUG: x")
    death.findings = [Finding(Kind.OOPS, "BUG: x")]
    assert [str(complaint) for complaint in heard_of(death)] == ["kernel oops (guest): BUG: x"]
    with pytest.raises(GuestError), watched(folder, Watch(), "wall"):
        raise death
    assert states(folder) == [("invalid", "guest oops: BUG: x; kernel oops (guest): BUG: x")]


def test_the_error_of_a_lost_guest_has_what_its_kernel_complained_of(
    log: Path, tmp_path: Path
) -> None:
    process = cast(Any, SimpleNamespace(wait=lambda timeout: 1, poll=lambda: 1))
    guest = Guest(make_spec(tcg=True), NONE, NONE, Console(log), tmp_path, _process=process)
    said = "rcu: INFO: rcu_preempt self-detected stall on CPU"
    kept = tmp_path / "kept.log"
    with pytest.raises(GuestError, match="guest RCU stall") as lost, guest._explained(kept):
        say(log, WARNING, said)
        raise TransportError("no answer")
    assert lost.value.findings == [Finding(Kind.WARNING, WARNING), Finding(Kind.STALL, said)]


# In every command that measures, by guests that are made up.


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[Path]]:
    """Have guests booted that are nothing but consoles; what it returns names those."""
    consoles: list[Path] = []

    @contextlib.contextmanager
    def boot(*_: object, **__: object) -> Iterator[object]:
        consoles.append(tmp_path / f"console-{len(consoles)}")
        say(consoles[-1], "Run /skblab/bootstrap as init process")
        transport = SimpleNamespace(script=lambda text: Done(0, "", ""))
        console = Console(consoles[-1])
        yield SimpleNamespace(console=console, transport=transport, connect=lambda: None)
        console.poll()

    monkeypatch.setattr(Guest, "boot", boot)
    monkeypatch.setattr(Guest, "prepare", lambda *_: None)
    monkeypatch.setattr(bench, "describe_guest", lambda guest: None)
    monkeypatch.setattr(bench, "describe", lambda *_: synthetic_run.environment())
    return lambda: consoles


@pytest.mark.parametrize("complains", [True, False])
def test_the_demos_timed_trial(
    folder: RunFolder, log: Path, monkeypatch: pytest.MonkeyPatch, complains: bool
) -> None:
    say(log, "Run /skblab/bootstrap as init process")
    console = Console(log)
    target = SimpleNamespace(
        name="guest", program="pathlat", release="", transport=NONE, kernel_log=lambda _: console
    )
    documents = synthetic_run.sender(100), synthetic_run.receiver(100)

    def send(*_: object) -> loads.Sent:
        if complains:
            say(log, WARNING)
        sender, receiver = (json.dumps(document) for document in documents)
        return loads.Sent(100, 100, documents=(sender, receiver))

    probing = SimpleNamespace(
        look=lambda: True, end=lambda: json.dumps(synthetic_run.histograms(100))
    )
    nothing = contextlib.nullcontext
    monkeypatch.setattr(layers, "guest_of_ours", lambda *_, **__: nothing(target))
    monkeypatch.setattr(layers, "attached", lambda *_: nothing(probing))
    monkeypatch.setattr(targets, "stamps_for", lambda *_: nothing())
    monkeypatch.setattr(targets, "counts", lambda _: True)
    monkeypatch.setattr(environment, "describe", lambda *_: synthetic_run.environment())
    monkeypatch.setattr(loads.Traffic, "run", send)
    timing = Demo(100, 100, 1000, Name()).timing
    if not complains:
        assert timing.run_in(folder, NONE, REPORTER) == synthetic_run.environment()
        assert states(folder) == [("good", "")]
        script = (folder.logs / "layers.sh").read_text()
        assert "\nip netns exec source /skblab/tools/bin/skblab-traffic send --to" in script
        assert "\necho 1 >/proc/sys/net/core/path_trace\n" in script
        assert "\npathlat --source histograms >" in script
        return
    with pytest.raises(RefusedError, match=WARNING.partition(" at ")[0]):
        timing.run_in(folder, NONE, REPORTER)
    assert states(folder) == [("invalid", f"kernel warning (guest): {WARNING}")]


def test_the_demos_sweep_is_read_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path))
    folder = Demo(100, 100, 1000, Name()).begin()
    asked = Parameters.of(folder)
    assert (asked.clock, asked.packets) == ("exact", 1000)
    assert folder.document.plan.settings == ("baseline", "baseline again", "rp_filter=1")
    assert folder.document.plan.packets == 100
    # It is no sweep that could be resumed: its first trial would not be done again.
    with pytest.raises(UsageError, match=r"to run it again: \./skblab demo --packets 100"):
        unfinished(folder.path)


def bench_run() -> bench.Run:
    rows = plan.choose(["off"], {})
    return bench.Run(NONE, REPORTER, rows, 500, 1, 2, 1, {}, None)


def test_the_benchmarks_rows_and_pairs(
    folder: RunFolder, guests: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(*_: object) -> measure.Found:
        say(guests()[0], WARNING)
        return measure.Found()

    def pairs(*_: object) -> list[object]:
        say(guests()[-1], LATER)
        return ["a pair"]

    monkeypatch.setattr(measure, "measure", rows)
    monkeypatch.setattr(wall, "measure", pairs)
    monkeypatch.setattr(programs, "ensure", lambda *_: Path())
    monkeypatch.setattr(programs, "gather", lambda *_: Path())
    monkeypatch.setattr(tools, "ensure", lambda *_: Path())
    made = bench_run()
    built = cast(Kernel, SimpleNamespace(release="6.12-test", changes=None))
    found = made._exact(folder, plan.PATCHED, built, list(made.rows))
    assert found.complaints == dict.fromkeys(
        (row.name for row in made.rows), f"kernel warning (boot 0): {WARNING}"
    )
    for row in made.rows:
        refused = made._row(row, "6.12-test", found, {}).refused
        assert refused.startswith(f"kernel warning (boot 0): {WARNING}")
    assert made._wall(folder, built) == []
    assert made.no_pairs == f"kernel warning (guest): {LATER}"
    assert [complaint.setting for complaint in load(folder.path).complaints()] == [
        plan.PATCHED,
        "pairs",
    ]


def test_what_the_probe_costs(
    guests: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rates(*_: object) -> list[float]:
        say(guests()[-1], WARNING)
        return [1.0] * 2 * cost.PAIRS

    monkeypatch.setattr(tools, "ensure", lambda *_: Path())
    monkeypatch.setattr(loads, "prepare", lambda *_: None)
    monkeypatch.setattr(cost, "_once", lambda *_: 1.0)
    monkeypatch.setattr(cost, "_rates", rates)
    record = SimpleNamespace(flavour="stock")
    built = cast(Kernel, SimpleNamespace(record=record, release="6.12-test"))
    with pytest.raises(RefusedError, match=r"cannot be told: kernel warning \(guest\)"):
        cost.measure(built, Probe(backend="bpf", source="samples"), Load(), cast(LabRoot, None))


def test_selftests(
    guests: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A line between two tests is the next one's, one after the last its own."""

    @contextlib.contextmanager
    def boot(_: Path) -> Iterator[Guest]:
        with Guest.boot(make_spec(tcg=True), NONE, NONE) as guest:
            yield guest
            say(guests()[-1], LATER)

    def run(guest: object, watch: Watch, test: str, *_: object) -> guestrun.Outcome:
        if test == "b":
            say(guests()[-1], WARNING)
        said = tuple(heard.line for heard in watch.look())
        return guestrun.judge(test, guestrun.Said(0, GOOD, said), 1.0, 300, Path("log"))

    monkeypatch.setattr(guestrun, "_run", run)
    found = list(guestrun.run_all(["a", "b", "c"], boot, tmp_path, "", lambda _: 300.0))
    assert [(result.test, result.verdict, result.why) for result in found] == [
        ("a", "pass", ""),
        ("b", "fail", f"the kernel warned: {WARNING}"),
        ("c", "fail", f"afterwards: kernel warning (guest): {LATER}"),
    ]


GOOD = "KTAP version 1\n1..1\nok 1 a\n"


def test_a_table_has_no_markup(folder: RunFolder) -> None:
    folder.heard_apart(heard_of(_death("[red]BUG: x")), "before the trial")
    [table] = terminal.complaint_tables(load(folder.path))
    assert list(table.columns[1].cells) == ["kernel oops (guest): \\[red]BUG: x"]


def _death(text: str) -> GuestError:
    death = GuestError(text)
    death.findings = [Finding(Kind.OOPS, text)]
    return death


def test_a_full_disk_hides_no_signal(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Stopped) as stopped, recording(folder, lambda: None, Reporter()):
        raise Stopped(15)
    assert stopped.value.exit_code == 143
    said = "".join(capsys.readouterr().err.split())
    assert f"whatwasrecordeduntilthen:{folder.path}" in said
    assert "resume" not in said


def test_a_run_that_never_began_leaves_nothing(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        pytest.raises(SkblabError),
        recording(folder, lambda: None, Reporter(), resumes=True),
    ):
        raise SkblabError("there is no network device eth9")
    assert not folder.path.exists()
    assert capsys.readouterr().err == ""


def test_a_run_that_is_resumed_stays(folder: RunFolder) -> None:
    folder.resume()
    with pytest.raises(SkblabError), recording(folder, lambda: None, Reporter(), resumes=True):
        raise SkblabError("no connection to router")
    assert (folder.path / "run.json").exists()


@pytest.mark.parametrize("names", [False, True])
def test_what_there_is_to_look_at_stays(folder: RunFolder, names: bool) -> None:
    error = SkblabError(f"see {folder.logs}") if names else GuestError("it died")
    with pytest.raises(SkblabError), recording(folder, lambda: None, Reporter(), resumes=True):
        raise error
    assert (folder.path / "run.json").exists()


def test_a_run_that_can_go_on_says_how(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Stopped), recording(folder, lambda: None, Reporter(), resumes=True):
        raise Stopped(2)
    said = "".join(capsys.readouterr().err.split())
    assert f"goonwith:./skblabresume{folder.path}" in said
