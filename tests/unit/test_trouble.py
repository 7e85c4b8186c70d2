# SPDX-License-Identifier: GPL-2.0-or-later
"""Trouble that a user meets before any guest: each is one clear line and an exit code."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

from conftest import TREE, Skblab
from skblab import cli
from skblab.lab import labroot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces, needs root rights")
# What a private mount namespace with a 64 MiB disk for the cache looks like.
SMALL_DISK = 'mount -t tmpfs -o size=64m tmpfs "$SKBLAB_CACHE" && exec "$@"'


def _complaint(text: str) -> str:
    """Return the one line that is an error; progress may stand before it."""
    lines = [line for line in text.splitlines() if line.startswith("skblab: ")]
    assert lines, text
    assert "Traceback" not in text
    return lines[-1]


def _as_nobody(told: SimpleQueue[tuple[int, str]]) -> None:
    # A fork, not a new process: another user may not be able to read our Python.
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    try:
        labroot.ensure(Reporter(quiet=True))
    except UsageError as error:
        told.put((error.exit_code, str(error)))


@needs_root
def test_no_root() -> None:
    fork = multiprocessing.get_context("fork")
    told = fork.SimpleQueue()
    child = fork.Process(target=_as_nobody, args=(told,))
    child.start()
    child.join()
    assert child.exitcode == 0
    status, text = told.get()
    assert status == 2
    assert "root rights are needed" in text
    assert "sudo" in text


@needs_root
def test_no_network_for_packages(skblab: Skblab, tmp_path: Path) -> None:
    # Or apt waits seven seconds before it believes it.
    (tmp_path / "apt.conf").write_text('Acquire::Retries "0";\n')
    done = skblab(
        "lab-root",
        env={"SKBLAB_CACHE": str(tmp_path), "APT_CONFIG": str(tmp_path / "apt.conf")},
        prefix=("unshare", "--net", "--"),
    )
    assert done.returncode == 2
    assert "packages cannot be fetched" in _complaint(done.stderr)
    assert list((tmp_path / "roots").glob("*.part")) == []


@needs_root
def test_disk_too_small_for_the_lab_root(skblab: Skblab, tmp_path: Path) -> None:
    done = skblab(
        "lab-root",
        env={"SKBLAB_CACHE": str(tmp_path)},
        prefix=("unshare", "--mount", "sh", "-c", SMALL_DISK, "sh"),
    )
    assert done.returncode == 1
    assert "GiB free" in _complaint(done.stderr)
    assert "SKBLAB_CACHE" in done.stderr


def test_missing_host_package_is_named(skblab: Skblab, tmp_path: Path) -> None:
    # A PATH with the shell's own needs only: mmdebstrap is not among them.
    for name in ("sh", "cat", "sha256sum", "cut", "dirname", "readlink", "uname"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = skblab("lab-root", env={"SKBLAB_CACHE": str(tmp_path), "PATH": str(tmp_path)})
    assert done.returncode == 2
    if os.geteuid() == 0:
        assert "mmdebstrap" in _complaint(done.stderr)
        assert "make setup" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "nonsense"),
        (("demo", "--packets", "0"), "--packets"),
        (("demo", "--packets", "x"), "--packets"),
        (("report",), "RUNS"),
    ],
)
def test_bad_usage(skblab_here: Skblab, arguments: tuple[str, ...], words: str) -> None:
    done = skblab_here(*arguments)
    assert done.returncode == 2
    assert words in _complaint(done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_lists_every_command(skblab: Skblab) -> None:
    done = skblab("--help")
    assert done.returncode == 0
    # The first word of a row, and not one of another command's sentence.
    assert set(re.findall(r"^│ ([a-z][a-z-]*) ", done.stdout, re.MULTILINE)) == {
        *("lab-root", "doctor", "boot", "demo", "report", "kselftest", "soak", "sweep", "resume"),
        *("bisect", "cleanup", "compare", "kernel", "bench", "cache", "probe", "profile", "ssh"),
        *("traffic", "tune", "analyze", "bundle", "jobs", "runs"),
    }


def test_no_command_loads_what_only_others_need() -> None:
    """All of them together take a second, and this is the start of each."""
    call = "import sys, skblab.cli; sys.exit(' '.join({'pyarrow', 'pydantic'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"


def test_a_reader_that_goes_away_is_no_crash() -> None:
    # It has gone before anything is written: whatever is, fails.
    reader, writer = os.pipe()
    os.close(reader)
    call = [str(TREE / "skblab"), "--help"]
    done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("ignored", [True, False])
def test_a_signal_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch, ignored: bool) -> None:
    """Who starts skblab by nohup, or in the background, expects it to go on."""
    before = [signal.getsignal(number) for number in cli.STOPPING]
    monkeypatch.setattr("sys.argv", ["skblab", "--version"])
    try:
        for number in cli.STOPPING:
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        with pytest.raises(SystemExit):
            cli.main()
        wanted = signal.SIG_IGN if ignored else cli._stop
        assert [signal.getsignal(number) for number in cli.STOPPING] == [wanted] * 3
    finally:
        for number, handler in zip(cli.STOPPING, before, strict=True):
            signal.signal(number, handler)
