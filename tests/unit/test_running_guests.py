# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that run: which are offered, and a second shell in one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Skblab
from skblab.lab.guest import about
from skblab.machine import byhand, running
from skblab.machine.transport import SshTransport, TransportError
from skblab_analysis.base.errors import EXIT_GUEST, SkblabWarning, UsageError

RELEASE = "6.12.117-skblab"


@pytest.fixture
def guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    (tmp_path / "guests").mkdir()
    return tmp_path / "guests"


def make(guests: Path, name: str, **more: Any) -> Path:  # noqa: ANN401  # of any field
    """Make the folder of a guest of this process, booted by hand unless it says otherwise."""
    more.setdefault("command", "skblab boot")
    folder = guests / name
    (folder / "sock").mkdir(parents=True)
    about.note(folder, RELEASE, Path("/roots/key"))
    if more:
        changed = about.read(folder)
        assert changed is not None
        (folder / about.FILE).write_text(changed.model_copy(update=more).model_dump_json())
    return folder


def names() -> list[str]:
    return [guest.name for guest in running.running()]


def test_what_is_noted_of_a_guest_is_read(guests: Path) -> None:
    folder = make(guests, "1-a")
    found = about.read(folder)
    assert found is not None
    assert (found.parent, found.release, found.root) == (os.getpid(), RELEASE, Path("/roots/key"))
    assert found.alive
    assert found.command.split()[0] == "skblab"
    assert [file.name for file in folder.iterdir() if "about" in file.name] == [about.FILE]


def test_only_guests_that_run_are_offered(guests: Path) -> None:
    make(guests, "1-runs", started=7.0)
    make(guests, "2-older", started=3.0)
    # Its process id belongs to another process now.
    make(guests, "3-dead", parent_begun=1)
    ended = subprocess.Popen(["true"])
    ended.wait()
    make(guests, "4-ended", parent=ended.pid)
    # It is being made.
    (guests / "5-begins").mkdir()
    (guests / "no-folder").write_text("")
    assert names() == ["2-older", "1-runs"]


def test_guests_of_other_users_are_not_offered(
    guests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(guests, "1-a")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert names() == []


def test_without_a_cache_no_guest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "none"))
    assert names() == []
    assert not (tmp_path / "none").exists()


def test_a_damaged_note_is_said_and_keeps_no_other_guest_away(guests: Path) -> None:
    (make(guests, "1-a") / about.FILE).write_text("{")
    make(guests, "2-b")
    with pytest.warns(SkblabWarning, match=r"left out: .*1-a/about\.json") as said:
        assert names() == ["2-b"]
    assert "\n" not in str(said[0].message)


def test_no_shell_disturbs_what_is_measured(guests: Path) -> None:
    make(guests, "1-a", command="skblab sweep first --exact")
    found = running.running()
    with pytest.raises(UsageError, match=r"measures .skblab sweep first --exact.*--guest 1-a"):
        running.choose(found, None)
    assert running.choose(found, "1").name == "1-a"


def test_a_guest_is_chosen_by_the_beginning_of_its_name(guests: Path) -> None:
    for name in ("123-a", "124-b"):
        make(guests, name)
    make(guests, "1234-c")
    found = running.running()
    assert running.choose(found, "124").name == "124-b"
    assert running.choose(found, "123").name == "123-a"
    assert running.choose(found, "1234").name == "1234-c"
    assert running.choose(found[:1], None).name == found[0].name
    wrong: tuple[tuple[str | None, str], ...] = (
        (None, "3 guests run; choose one with --guest: "),
        ("12", "more than one begins so: "),
        ("9", "no such guest runs; there are: "),
    )
    for given, words in wrong:
        with pytest.raises(UsageError, match=words) as said:
            running.choose(found, given)
        assert "123-a" in str(said.value) and "124-b" in str(said.value)


def test_a_guest_that_has_ended_is_told_of(guests: Path) -> None:
    folder = make(guests, "1-a")
    [guest] = running.running()
    assert guest.trouble() is None
    (folder / about.FILE).unlink()
    (folder / "sock").rmdir()
    folder.rmdir()
    assert guest.trouble() == "guest 1-a has ended"
    assert guest.transport().trouble() == "guest 1-a has ended"


def test_the_way_in_is_the_connection_that_is_open(guests: Path) -> None:
    folder = make(guests, "1-a")
    [guest] = running.running()
    argv = " ".join(guest.transport().wrap(["ssh", *guest.transport().options]))
    assert f"{folder}/sock" in argv and "cd /roots/key" in argv
    assert "ControlPath=/skblab/sock/ssh.ctl" in argv


# The command


def test_no_guest_is_one_line(guests: Path, skblab_here: Skblab) -> None:
    done = skblab_here("ssh")
    assert done.returncode == 2
    assert done.stderr == (
        "skblab: no guest of yours runs; boot one in another terminal with: ./skblab boot\n"
    )
    done = skblab_here("ssh", "--list")
    assert (done.returncode, done.stdout) == (0, "no guest of yours runs\n")


def test_the_list_has_each_guest(guests: Path, skblab_here: Skblab) -> None:
    make(guests, "1-a", command="skblab boot --share out", started=0.0)
    make(guests, "2-b", command="skblab demo")
    done = skblab_here("ssh", "--list")
    assert done.returncode == 0
    head, first, second = done.stdout.splitlines()
    assert head.split() == ["guest", "kernel", "minutes", "booted", "by"]
    assert first.split()[:2] == ["1-a", RELEASE] and first.rstrip().endswith("--share out")
    assert second.split()[:3] == ["2-b", RELEASE, "0"]
    assert skblab_here("ssh", "--list", "--guest", "2").stdout.count("\n") == 2
    assert skblab_here("ssh", "--list", "--", "true").returncode == 2


class Attached(SshTransport):
    """A connection that is open, or not, and a session that ends in one way or the other."""

    up = True
    ends: int | Exception = 0
    calls: list[tuple[list[str], bool]] = []  # noqa: RUF012  # emptied by the fixture

    def connected(self) -> bool:
        return self.up

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        self.calls.append(([*argv], tty))
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> type[Attached]:
    monkeypatch.setattr(running.Running, "transport", lambda _: Attached([], "root@guest"))
    for name, value in (("up", True), ("ends", 0), ("calls", [])):
        monkeypatch.setattr(Attached, name, value)
    return Attached


def test_a_command_runs_in_the_guest(
    guests: Path, attached: type[Attached], skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(guests, "1-a")
    monkeypatch.setattr(attached, "ends", 3)
    assert skblab_here("ssh", "--", "uname", "-r").returncode == 3
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    skblab_here("ssh", "--guest", "1")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    skblab_here("ssh")
    assert attached.calls == [
        (["uname", "-r"], False),
        (byhand.shell(tty=True), True),
        ([], False),
    ]


def test_a_guest_that_is_not_up_or_ends_is_said(
    guests: Path, attached: type[Attached], skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(guests, "1-a")
    monkeypatch.setattr(attached, "ends", TransportError("guest 1-a has ended"))
    done = skblab_here("ssh")
    assert (done.returncode, done.stderr) == (EXIT_GUEST, "skblab: guest 1-a has ended\n")


def test_a_guest_without_a_connection_boots_or_ends_or_is_dead(
    guests: Path, attached: type[Attached], skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(guests, "1-a")
    monkeypatch.setattr(attached, "up", False)
    done = skblab_here("ssh")
    assert done.returncode == 2
    assert done.stderr == "skblab: guest 1-a is still booting; try again in some seconds\n"
    about.note_up(folder)
    done = skblab_here("ssh")
    assert done.returncode == EXIT_GUEST
    assert done.stderr == (
        "skblab: guest 1-a is ending: the command that booted it has closed its connection\n"
    )
    (folder / "console.log").write_text(
        "[    1.000000] Kernel panic - not syncing: sysrq triggered crash\n"
    )
    done = skblab_here("ssh")
    assert done.returncode == EXIT_GUEST
    assert done.stderr == (
        "skblab: guest 1-a is dead: panic: Kernel panic - not syncing: sysrq triggered crash\n"
    )


def test_a_shell_ends_when_the_guests_kernel_dies(guests: Path) -> None:
    folder = make(guests, "1-a")
    [guest] = running.running()
    assert guest.trouble() is None
    (folder / "console.log").write_text("[    1.000000] Oops: 0000 [#1] PREEMPT SMP\n")
    assert guest.trouble() == "guest 1-a is dead: oops: Oops: 0000 [#1] PREEMPT SMP"
