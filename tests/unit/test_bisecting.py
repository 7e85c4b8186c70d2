# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `bisect` and `compare --git-bisect`, on a made-up repository and without a guest."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import TREE, Skblab
from made_up_kernels import ENVIRONMENT, identity
from repositories import make_line, run_git
from skblab.bench.comparison import SHARED
from skblab.compare import bisecting, running
from skblab.compare.counting import NoFigureError, Shot
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.blame import SourceError
from skblab.lab.kernel.names import Name
from skblab.lab.reporter import Reporter
from skblab.machine.guest import KILLED
from skblab.sweep.session import alone
from skblab_analysis.base.errors import SkblabError, Stopped
from skblab_analysis.formats.bisect import BisectDocument
from skblab_analysis.formats.compare import Figure
from skblab_analysis.formats.run import Environment
from skblab_analysis.load import load
from waiting import PATIENCE

COMMITS = 12
CULPRIT = 8
# One of these is tried first.
MIDDLE = (5, 6)
BASE, STEP = 4000.0, 100.0
# What becomes of a commit's kernel, by its place; what it counts is what is left.
Happens = dict[int, Callable[[], None]]


def fails(error: BaseException) -> Callable[[], None]:
    """Return what raises an error."""

    def fail() -> None:
        raise error

    return fail


class Lab:
    """Kernels of a repository's commits: what each costs, and what happens where it is built."""

    def __init__(self, path: Path, made: list[str]) -> None:
        self.path, self.made = path, made
        self.built: list[int] = []
        self.building: Happens = {}
        self.running: Happens = {}
        self.step = STEP
        self.notes: list[str] = []

    def ensure(self, request: Name, *_: object) -> Kernel:
        """Stand for kernel.ensure."""
        assert request.revision is not None
        place = self.made.index(request.revision)
        self.built.append(place)
        self.building.get(place, lambda: None)()
        made = SimpleNamespace(
            key=f"key-{place}",
            place=place,
            symbols=None,
            changes=None,
            record=SimpleNamespace(toolchain={"gcc": "14"}, flavour="stock"),
            config=self.path / "config",
        )
        return made  # type: ignore[return-value]

    def count(self, shot: Shot) -> tuple[Figure, Environment]:
        """Stand for Counting.count."""
        place: int = shot.kernel.place  # type: ignore[attr-defined]
        self.running.get(place, lambda: None)()
        slow = self.step * (place >= CULPRIT)
        found = BASE + slow + 0.5 * shot.boot
        functions = {"ip_forward": 100.0 + slow, "ip_rcv": 300.0}
        figure = Figure(instructions=found, iterations=0, clock=found, units=1, functions=functions)
        return figure, ENVIRONMENT


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """Have kernels of a repository, of which one commit costs more."""
    path = tmp_path / "linux"
    path.mkdir()
    files = {
        "Makefile": "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n",
        "config": "CONFIG_NET=y\n",
    }
    subjects = [f"net: tidy [{number}]" for number in range(COMMITS)]
    found = Lab(path, make_line(path, subjects, files))

    @contextmanager
    def shares(*given: object) -> Iterator[list[object]]:
        # What a guest writes it writes where its results are looked for.
        yield [logs for logs in given if isinstance(logs, Path)]

    def counting(
        _: object,
        seen: list[object],
        logs: Path,
        notes: dict[str, None],
        caches: object = None,
    ) -> object:
        assert logs in seen and logs.is_dir()
        notes |= dict.fromkeys(found.notes)
        return SimpleNamespace(count=found.count)

    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(path)
    root = SimpleNamespace(versions={"qemu-system-x86": "10.0", "gcc": "14"}, key="root")
    for module in (bisecting, running):
        monkeypatch.setattr(module, "request_of", lambda name, of: name)
        monkeypatch.setattr(module, "Counting", counting)
    monkeypatch.setattr("skblab.lab.labroot.ensure", lambda _: root)
    monkeypatch.setattr("skblab.lab.kernel.ensure", found.ensure)
    monkeypatch.setattr("skblab.bench.functions.ensure", lambda *_: Path("plugin-key"))
    monkeypatch.setattr("skblab.bench.programs.ensure", lambda *_: Path("programs-key"))
    monkeypatch.setattr("skblab.bench.programs.shares", shares)
    for command in ("bisect", "compare"):
        monkeypatch.setattr(f"skblab.commands.{command}.gnuplot", lambda _: None)
    monkeypatch.setattr(Name, "settled", lambda self, *_: self)
    monkeypatch.setattr(running, "identity", identity)
    return found


WORDS = ("--workload", "forward4")


def searched(skblab: Skblab, lab: Lab, *words: str, status: int = 0) -> tuple[str, Any]:
    """Return what the command says on its standard error, and its document."""
    good = () if "--resume" in words else ("--good", lab.made[0], *WORDS)
    done = skblab("bisect", *good, *words, "--json")
    assert done.returncode == status, done.stderr
    return done.stderr, json.loads(done.stdout) if done.stdout else None


def test_the_culprit_is_named_with_its_function(skblab_here: Skblab, lab: Lab) -> None:
    done = skblab_here("bisect", "--good", lab.made[0], "--bad", "HEAD", *WORDS)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert (
        f'{lab.made[CULPRIT][:12]} ("net: tidy [{CULPRIT}]") costs 100.0 instructions more than '
        "its parent (2.5 %), most in ip_forward() +100."
    ) in told
    page = Path(told.rpartition("Report: ")[2])
    assert f"{lab.made[CULPRIT][:12]} changed what forward4 costs" in page.read_text()
    folder = page.parents[1]
    document = BisectDocument.model_validate_json((folder / "bisect.json").read_text())
    assert document.found == (lab.made[CULPRIT],)
    assert document.parent == lab.made[CULPRIT - 1] and document.step == pytest.approx(STEP)
    assert load(folder).document.state == "finished"
    # Both ends twice, some of those between them, and two of these once more.
    assert len(lab.built) <= 4 + 4 + 2
    assert run_git(lab.path, "status", "--short") == ""


def test_what_is_to_be_known_of_a_kernel_is_said(skblab_here: Skblab, lab: Lab) -> None:
    lab.notes = [SHARED.format("6.1.0")]
    said, _ = searched(skblab_here, lab)
    assert "pktgen of 6.1.0 keeps a part in each packet" in " ".join(said.split())


def test_commits_that_do_not_build_or_boot_are_left_out(skblab_here: Skblab, lab: Lab) -> None:
    first, second = MIDDLE
    lab.building[first] = fails(SourceError("net/ipv4/ip_forward.c:1: error: no"))
    lab.running[second] = fails(NoFigureError("guest panic: no init", "kernel", up=False))
    said, document = searched(skblab_here, lab)
    assert document["found"] == [lab.made[CULPRIT]]
    left = {one["commit"]: one["why"] for one in document["steps"] if one["verdict"] == "skipped"}
    reasons = {
        lab.made[first]: "it does not build: net/ipv4/ip_forward.c:1: error: no",
        lab.made[second]: "it does not boot: guest panic: no init",
    }
    assert left and left.items() <= reasons.items()
    for commit, why in left.items():
        assert f"{commit[:12]} skipped: {why}" in " ".join(said.split())


def test_a_commit_that_cannot_be_told_from_others(skblab_here: Skblab, lab: Lab) -> None:
    lab.building[CULPRIT] = fails(SourceError("error: no"))
    done = skblab_here("bisect", "--good", lab.made[0], *WORDS)
    told = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert f"One of {lab.made[CULPRIT + 1][:12]} " in told and lab.made[CULPRIT][:12] in told


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SkblabError("the disk is full: /cache"), "the disk is full: /cache"),
        (NoFigureError("the guest was killed", "other"), "the guest was killed"),
    ],
)
def test_what_no_commit_is_to_blame_for_stops_it_and_it_goes_on(
    skblab_here: Skblab, lab: Lab, tmp_path: Path, error: SkblabError, said: str
) -> None:
    lab.running = dict.fromkeys(MIDDLE, fails(error))
    told, _ = searched(skblab_here, lab, status=3)
    assert said in told
    [folder] = (tmp_path / "results").iterdir()
    assert f"go on with: ./skblab bisect --resume {folder}" in " ".join(told.split())
    assert load(folder).document.state == "failed"
    lab.running.clear()
    lab.built.clear()
    _, document = searched(skblab_here, lab, "--resume", str(folder))
    assert document["found"] == [lab.made[CULPRIT]]
    # The ends are not measured again.
    assert not {0, COMMITS - 1} & {*lab.built}
    refused, _ = searched(skblab_here, lab, "--resume", str(folder), status=2)
    assert f"it has ended, and found {lab.made[CULPRIT][:12]}" in refused


def test_two_do_not_go_on_with_one_search(skblab_here: Skblab, lab: Lab, tmp_path: Path) -> None:
    """They would write over each other's steps: the second one waits for the first one's end."""
    lab.running = dict.fromkeys(MIDDLE, fails(SkblabError("no")))
    searched(skblab_here, lab, status=3)
    [folder] = (tmp_path / "results").iterdir()
    lab.running.clear()
    held, over = threading.Event(), threading.Event()

    def first() -> None:
        with alone(folder, Reporter(quiet=True)):
            held.set()
            over.wait(PATIENCE)

    other = threading.Thread(target=first)
    other.start()
    try:
        assert held.wait(PATIENCE)
        threading.Timer(0.5, over.set).start()
        told, document = searched(skblab_here, lab, "--resume", str(folder))
        assert over.is_set() and "waiting for another skblab" in told
        assert document["found"] == [lab.made[CULPRIT]]
    finally:
        over.set()
        other.join()


def test_a_sweeps_way_to_go_on_says_how_a_search_does(
    skblab_here: Skblab, lab: Lab, tmp_path: Path
) -> None:
    lab.running = dict.fromkeys(MIDDLE, fails(SkblabError("no")))
    searched(skblab_here, lab, status=3)
    [folder] = (tmp_path / "results").iterdir()
    done = skblab_here("resume", str(folder))
    assert done.returncode == 2
    assert f"is no sweep; go on with it: ./skblab bisect --resume {folder}" in done.stderr


def test_one_that_is_killed_goes_on(skblab_here: Skblab, lab: Lab, tmp_path: Path) -> None:
    lab.running = dict.fromkeys(MIDDLE, fails(Stopped(15)))
    done = skblab_here("bisect", "--good", lab.made[0], *WORDS)
    assert done.returncode == 128 + 15
    [folder] = (tmp_path / "results").iterdir()
    # As kill -9 leaves it.
    run = json.loads((folder / "run.json").read_text())
    run |= {"state": "running", "finished": None, "reason": ""}
    (folder / "run.json").write_text(json.dumps(run))
    lab.running.clear()
    _, document = searched(skblab_here, lab, "--resume", str(folder))
    assert document["found"] == [lab.made[CULPRIT]]
    assert load(folder).document.state == "finished"


def test_a_file_of_the_users_is_found_again(
    skblab_here: Skblab, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = lab.path / "mine.sh"
    file.write_text("# title: mine\n\nprepare() { lay_out; }\n\nload() { sent_family 4; }\n")
    lab.running = dict.fromkeys(MIDDLE, fails(SkblabError("no")))
    words = ("bisect", "--good", lab.made[0], "--workload", "mine.sh")
    assert skblab_here(*words).returncode == 3
    [folder] = (tmp_path / "results").iterdir()
    lab.running.clear()
    monkeypatch.chdir(tmp_path)
    file.write_text(file.read_text().replace("sent_family 4", "sent_family 6"))
    said, _ = searched(skblab_here, lab, "--resume", str(folder), status=2)
    assert "mine.sh has changed since; begin again: ./skblab bisect --good" in said
    file.write_text(file.read_text().replace("sent_family 6", "sent_family 4"))
    _, document = searched(skblab_here, lab, "--resume", str(folder))
    assert document["found"] == [lab.made[CULPRIT]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--good is missing; or name a run that was stopped: --resume RUN"),
        (("--good", "HEAD~1"), "--workload is missing"),
        (("--good", "HEAD", *WORDS), "--bad HEAD: the same commit as --good HEAD"),
        (("--good", "HEAD", "--bad", "HEAD~1", *WORDS), "--good HEAD: no ancestor of HEAD~1"),
        (("--good", "gone", *WORDS), "no such revision there"),
        (("--good", "HEAD~1", "--workload", "foward4"), "did you mean forward4?"),
        (("--good", "HEAD~1", *WORDS, "--packets", "1500"), "--packets 1500: expected whole"),
        (("--good", "HEAD~1", "--workload", "veth", "--set", "rp_filter=1"), "--workload veth: "),
        (("--resume", "nowhere"), "--resume nowhere: it has no bisect.json; expected a run of"),
        (("--resume", "nowhere", *WORDS), "--resume: the run has all other options"),
        (
            ("--resume", "nowhere", "--set", "rp_filter=1"),
            "--resume: the run has all other options",
        ),
    ],
)
def test_bad_usage(skblab_here: Skblab, lab: Lab, words: tuple[str, ...], said: str) -> None:
    done = skblab_here("bisect", *words)
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert lab.built == []


@pytest.mark.parametrize(
    ("good", "said"), [("v1", "--good v1: no ancestor of HEAD"), ("HEAD~9", "no such revision")]
)
def test_a_shallow_clone_is_told_as_such(
    skblab_here: Skblab, lab: Lab, tmp_path: Path, good: str, said: str
) -> None:
    run_git(lab.path, "tag", "v1", lab.made[0])
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "--depth=2", "--no-single-branch", f"file://{lab.path}", str(clone))
    done = skblab_here("bisect", "--repository", str(clone), "--good", good, *WORDS)
    assert done.returncode == 2
    assert said in done.stderr
    assert f"(the clone is shallow and may lack it: git -C {clone} fetch" in done.stderr


def test_ends_that_are_too_near_are_no_search(skblab_here: Skblab, lab: Lab) -> None:
    lab.step = 5.0
    said, _ = searched(skblab_here, lab, status=3)
    assert "both ends are too near: 4000.2 and 4005.2 instructions" in said
    assert "go on with" not in said


def told_git(skblab: Skblab, lab: Lab, place: int, *more: str) -> int:
    """Return the status that git is told of a commit, beside the first one."""
    words = (f"git:{lab.path}@{lab.made[0]}", f"git:{lab.path}@{lab.made[place]}", *WORDS)
    return skblab("compare", *words, "--git-bisect", *more).returncode


@pytest.mark.parametrize(
    ("place", "building", "running_", "status"),
    [
        (CULPRIT, {}, {}, 1),
        (CULPRIT - 1, {}, {}, 0),
        (4, {4: SourceError("error: no")}, {}, 125),
        (4, {4: SourceError("net/Kconfig:7: syntax error")}, {}, 125),
        (4, {4: SkblabError("the disk is full")}, {}, 255),
        (4, {4: KeyError("a traceback")}, {}, 255),
        (4, {4: OSError(28, "the disk is full")}, {}, 255),
        (4, {0: SourceError("error: no")}, {}, 255),
        (4, {}, {4: NoFigureError("guest panic: no init", "kernel", up=False)}, 125),
        (4, {}, {4: NoFigureError("guest panic: sysrq", "kernel")}, 1),
        (4, {}, {4: NoFigureError("it has no VLANs", "lacking")}, 125),
        (4, {}, {4: NoFigureError("the guest was killed", "other")}, 255),
        (4, {}, {0: NoFigureError("guest panic: sysrq", "kernel")}, 255),
    ],
)
def test_git_is_told_of_a_commit(
    skblab_here: Skblab,
    lab: Lab,
    place: int,
    building: dict[int, Exception],
    running_: dict[int, Exception],
    status: int,
) -> None:
    lab.building = {of: fails(error) for of, error in building.items()}
    lab.running = {of: fails(error) for of, error in running_.items()}
    assert told_git(skblab_here, lab, place) == status


@pytest.mark.parametrize(
    "words",
    [
        ("git:.@HEAD",),
        ("git:.@gone", "git:.@HEAD"),
        ("git:.@HEAD", "git:.@HEAD", "--nonsense"),
        ("git:.@HEAD", "git:.@HEAD", "--packets", "12345"),
        ("git:.@HEAD", "git:.@HEAD", "--packets", "many"),
    ],
)
def test_bad_usage_blames_no_commit(skblab_here: Skblab, lab: Lab, words: tuple[str, ...]) -> None:
    assert skblab_here("compare", *words, *WORDS, "--git-bisect").returncode == 255


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "full"),
    [
        (("compare", "--list"), "stdout"),
        (("compare", "--list"), "both"),
        (("compare", "--nonsense"), "both"),
        (("nonsense",), "both"),
    ],
)
def test_what_cannot_be_printed_blames_no_commit(words: tuple[str, ...], full: str) -> None:
    with Path("/dev/full").open("w") as disk:
        done = subprocess.run(
            [str(TREE / "skblab"), *words, "--git-bisect"],
            stdout=disk,
            stderr=disk if full == "both" else subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 255


def test_settings_are_those_of_a_search_that_goes_on(
    skblab_here: Skblab, lab: Lab, tmp_path: Path
) -> None:
    lab.running = dict.fromkeys(MIDDLE, fails(SkblabError("no")))
    words = ("--set", "rp_filter=1", "--set", "netfilter=nft-forward 100")
    searched(skblab_here, lab, *words, status=3)
    [folder] = (tmp_path / "results").iterdir()
    lab.running.clear()
    _, document = searched(skblab_here, lab, "--resume", str(folder))
    assert document["settings"] == {"rp_filter": "1", "netfilter": "nft-forward 100"}
    assert all(word in shlex.split(document["again"]) for word in words)


def test_a_kernel_that_never_says_a_word_is_left_out_and_one_that_was_killed_is_not(
    skblab_here: Skblab, lab: Lab
) -> None:
    silent = NoFigureError("the guest was not up after 600 s", "other", up=False)
    lab.running = dict.fromkeys(MIDDLE, fails(silent))
    _, document = searched(skblab_here, lab)
    assert document["found"] == [lab.made[CULPRIT]]
    assert "it does not boot: the guest was not up" in str(document["steps"])
    lab.running = dict.fromkeys(MIDDLE, fails(NoFigureError(KILLED, "other", up=False)))
    searched(skblab_here, lab, status=3)


def test_one_that_was_stopped_behind_its_last_step_ends(
    skblab_here: Skblab, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            "skblab_analysis.runfolder.RunFolder.finish",
            lambda *_, **__: fails(OSError(28, "full"))(),
        )
        searched(skblab_here, lab, status=3)
    [folder] = (tmp_path / "results").iterdir()
    lab.built.clear()
    _, document = searched(skblab_here, lab, "--resume", str(folder))
    assert document["found"] == [lab.made[CULPRIT]] and lab.built == []
    assert load(folder).document.state == "finished"


def test_git_finds_the_culprit_by_it(skblab_here: Skblab, lab: Lab, tmp_path: Path) -> None:
    """git's own search, with the statuses of a command that this test stands in for."""
    lab.building[3] = fails(SourceError("error: no"))
    statuses = {
        commit: told_git(skblab_here, lab, place) for place, commit in enumerate(lab.made) if place
    }
    command = tmp_path / "command"
    lines = [f"{commit}) exit {status};;" for commit, status in statuses.items()]
    command.write_text(
        "\n".join(("#!/bin/sh", 'case "$(git rev-parse HEAD)" in', *lines, "esac", "exit 255\n"))
    )
    command.chmod(0o755)
    run_git(lab.path, "bisect", "start", lab.made[-1], lab.made[0])
    told = run_git(lab.path, "bisect", "run", shlex.quote(str(command)))
    assert f"{lab.made[CULPRIT]} is the first bad commit" in told
    subprocess.run(["git", "-C", str(lab.path), "bisect", "reset", "-q"], check=False)
