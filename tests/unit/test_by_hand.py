# SPDX-License-Identifier: GPL-2.0-or-later
"""Working in a guest by hand: what it has, and what a shell says first."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import Skblab
from skblab.lab import kernel, labroot, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.spec import GuestSpec
from skblab.lab.kernel import source
from skblab.lab.labroot import Bind
from skblab.machine import byhand
from skblab.machine.byhand import ByHand
from skblab.machine.guest import Guest
from skblab.machine.transport.base import Done
from skblab.selftests import tree

RELEASE = "6.12.117-skblab"


def test_the_message_says_all_in_eight_lines() -> None:
    text = ByHand(GuestSpec(), RELEASE, None, ["napi_sample.py"]).message()
    assert len(text.splitlines()) <= 8
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        f"Linux {RELEASE}, 2 CPUs, 2048 MiB, emulated",
        "skblab-traffic",
        "/skblab/tree/probes/{bpftrace,systemtap}",
        "cd /skblab/src/tools/testing/selftests/net && ./napi_sample.py",
        "/lib/modules/$(uname -r)/build",
        "--share DIR",
        "./skblab ssh",
        "exit",
    ):
        assert words in text


def test_the_message_is_of_this_guest() -> None:
    exact = ByHand(make_spec(exact=True), RELEASE, Path("/home/me/out")).message()
    assert "1 CPU, 2048 MiB, the clock counts instructions" in exact
    assert "/skblab/out is /home/me/out of the host" in exact
    assert "Selftests: none here; boot with --selftests\n" in exact
    assert "KVM." in ByHand(GuestSpec(accel="kvm"), RELEASE).message()
    # The kernel's own tests alone: none is named.
    assert "selftests/net\n" in ByHand(GuestSpec(), RELEASE, None, []).message()


def test_the_path_of_the_selftests_is_that_of_kselftest() -> None:
    assert f"/skblab/src/{tree.NET}" == byhand.NET_SELFTESTS


def test_the_shell_prints_the_message_if_there_is_one(tmp_path: Path) -> None:
    words = [word.replace("/skblab/run", str(tmp_path)) for word in byhand.shell(tty=True)]

    def said() -> str:
        env = {"SHELL": "/bin/true", "PATH": os.environ["PATH"]}
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
        return done.stdout

    assert said() == ""
    hand = ByHand(GuestSpec(), RELEASE)
    hand.greet(tmp_path)
    assert said() == hand.message()
    # A script on standard input gets no message among its output.
    assert byhand.shell(tty=False) == []


# What `skblab boot` puts into a guest


class Booted:
    """A guest that notes what it was booted with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shares: dict[str, Bind] = {}
        self.scripts: list[str] = []
        self.attached: list[tuple[list[str], bool]] = []
        self.transport = self
        self.console = SimpleNamespace(findings=[])

    @contextlib.contextmanager
    def boot(self, *_: object, shares: Sequence[Bind], log: Path | None) -> Iterator[Booted]:
        del log
        self.shares = {share.point: share for share in shares}
        assert len(self.shares) == len(shares)
        yield self

    def script(self, text: str) -> Done:
        self.scripts.append(text)
        return Done(0, "", "")

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        self.attached.append(([*argv], tty))
        return 0


@pytest.fixture
def booted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Booted:
    guest = Booted(tmp_path)
    built = SimpleNamespace(path=Path("/kernels/key"), key="key", release=RELEASE)
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(Guest, "boot", guest.boot)
    monkeypatch.setattr(labroot, "ensure", lambda _: None)
    monkeypatch.setattr(kernel, "ensure", lambda *_: built)
    monkeypatch.setattr(tools, "programs", lambda *_: Path("/tools/key"))
    monkeypatch.setattr(source, "find", lambda *_: None)
    monkeypatch.setattr(source, "series_for", lambda _: "the series")
    monkeypatch.setattr(tree, "ensure", lambda _, series, *__: tree.Tree(Path(f"/src/{series}")))
    monkeypatch.setattr(tree, "added", lambda _: ["net_path.py"])
    return guest


def test_a_command_has_the_kernels_folder_and_our_programs(
    booted: Booted, skblab_here: Skblab, tmp_path: Path
) -> None:
    done = skblab_here("boot", "--tcg", "--share", str(tmp_path), "--", "true")
    assert done.returncode == 0, done.stderr
    assert {point: str(share.source) for point, share in booted.shares.items()} == {
        "kernel": "/kernels/key",
        "tree": str(Path(__file__).resolve().parents[2]),
        "tools": "/tools/key",
        "out": str(tmp_path),
    }
    assert [point for point, share in booted.shares.items() if share.writable] == ["out"]
    assert booted.scripts == [byhand.PREPARE]
    assert booted.attached == [(["true"], False)]


@pytest.mark.parametrize(
    ("arguments", "terminal", "folder"),
    [
        ((), True, "/src/the series"),
        (("--kernel", "6.12"), True, None),
        (("--no-selftests",), True, None),
        ((), False, None),
        (("--selftests",), False, "/src/the series"),
        (("--selftests", "--kernel", "6.12"), False, "/src/None"),
    ],
)
def test_a_shell_on_the_patched_kernel_has_the_selftests(
    arguments: tuple[str, ...],
    terminal: bool,
    folder: str | None,
    booted: Booted,
    skblab_here: Skblab,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: terminal))
    done = skblab_here("boot", "--tcg", *arguments)
    assert done.returncode == 0, done.stderr
    found = booted.shares.get("src")
    assert (None if found is None else str(found.source)) == folder
    assert booted.attached == [(byhand.shell(tty=terminal), terminal)]
    said = (booted.folder / byhand.MESSAGE).read_text()
    assert ("./net_path.py" in said) == (folder == "/src/the series")


def test_what_systemtap_knows_of_the_kernel_is_there_to_read(
    booted: Booted, skblab_here: Skblab, tmp_path: Path
) -> None:
    (tmp_path / "systemtap" / "key").mkdir(parents=True)
    assert skblab_here("boot", "--tcg", "--", "true").returncode == 0
    found = booted.shares["build"]
    assert (found.source, found.writable) == (tmp_path / "systemtap" / "key", False)
    assert f"lowerdir={found.inside}," in byhand.PREPARE


def test_what_is_linked_is_in_a_kernels_folder() -> None:
    assert "ln -s /skblab/kernel/build " in byhand.PREPARE
    built = kernel.Kernel(Path("/skblab/kernel"), "key")
    assert str(built.build_dir) in byhand.PREPARE and str(built.vmlinux) in byhand.PREPARE
