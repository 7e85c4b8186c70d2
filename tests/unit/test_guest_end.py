# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a guest that ends: its sshd's last words, and the first of several causes."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skblab.lab.guest import GuestSpec, spec
from skblab.lab.guest.console import Console
from skblab.lab.guest.errors import GuestError
from skblab.machine import patience
from skblab.machine.guest import Guest
from skblab.machine.transport import SshTransport, TransportError
from skblab_analysis.base.errors import SkblabWarning, UsageError

ENDED = "sshd ended (exit 255): Bad packet length"
AGAIN = "skblab-init: sshd starts again"


class Client(SshTransport):
    """A connection, the first attempts of which fail, while init says these lines."""

    def __init__(self, folder: Path, lines: list[str]) -> None:
        super().__init__([], "root@guest")
        self.folder, self.lines, self.tries = folder, lines, 0

    def connect(self, seconds: float) -> None:
        self.tries += 1
        if self.lines:
            say(self.folder, self.lines.pop(0), *self.lines[:1])
            del self.lines[:1]
            raise TransportError(self.trouble() or "no connection")

    def connected(self) -> bool:
        return False


def say(folder: Path, *lines: str) -> None:
    with (folder / "console.log").open("a") as log:
        log.writelines(f"[    8.783264] {line}\n" for line in lines)


def guest(folder: Path, *lines: str, ends: bool = True) -> tuple[Guest, Client]:
    (folder / "qemu.log").touch()
    (folder / "console.log").touch()
    (folder / "sock").mkdir()
    (folder / "sock" / "ssh").touch()
    status = 0 if ends else None
    process = SimpleNamespace(poll=lambda: status, wait=lambda timeout: status)
    client = Client(folder, list(lines))
    console = Console(folder / "console.log")
    made = Guest(GuestSpec(), cast(Any, None), client, console, folder, cast(Any, process))
    client.trouble = made.trouble
    return made, client


def test_a_guest_that_ended_says_what_its_sshd_said(tmp_path: Path) -> None:
    made, _ = guest(tmp_path)
    assert made.trouble() == "the guest ended by itself (QEMU exit status 0)"
    say(tmp_path, f"skblab-init: {ENDED}", "sysrq: Power Off")
    assert made.trouble() == f"the guest's {ENDED}"


def test_the_end_of_an_sshd_is_no_trouble_while_the_guest_runs(tmp_path: Path) -> None:
    made, _ = guest(tmp_path, ends=False)
    say(tmp_path, f"skblab-init: {ENDED}", AGAIN)
    assert made.trouble() is None


def test_a_handshake_that_failed_is_tried_again_and_told(tmp_path: Path) -> None:
    made, client = guest(tmp_path, f"skblab-init: {ENDED}", AGAIN, ends=False)
    with pytest.warns(SkblabWarning, match="sshd ended .exit 255.*connecting to the guest again"):
        made.connect()
    assert client.tries == 2
    assert client.trouble == made.trouble


def test_a_guest_that_ended_is_not_tried_again(tmp_path: Path) -> None:
    made, client = guest(tmp_path, f"skblab-init: {ENDED}", "sysrq: Power Off")
    with warnings.catch_warnings(), pytest.raises(TransportError, match="Bad packet length"):
        warnings.simplefilter("error")
        made.connect()
    assert client.tries == 1


class Waits(Client):
    """A client that waits for as long as it may, since nobody answers."""

    def connect(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
        raise TransportError(f"root@guest did not answer within {seconds:.0f} s")


@pytest.mark.parametrize(
    ("load", "socket", "lines", "said"),
    [
        (9.5, False, [], "QEMU to start; this machine is busy, and the guest may only be slow: "),
        (9.5, True, [], "the first word of its kernel; this machine is busy, "),
        (1.0, True, ["Linux version 6.12"], "its sshd; load average 1.0 on 2 CPUs; "),
    ],
)
def test_a_guest_that_is_late_says_what_was_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: float,
    socket: bool,
    lines: list[str],
    said: str,
) -> None:
    made, _ = guest(tmp_path, ends=False)
    made.transport = Waits(tmp_path, [])
    if not socket:
        (tmp_path / "sock" / "ssh").unlink()
    say(tmp_path, *lines)
    monkeypatch.setenv(patience.VARIABLE, "0.1")
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(GuestError) as late:
        made.connect()
    text = str(late.value)
    assert text.startswith(f"the guest was not up after 0 s: skblab waited for {said}")
    assert f"load average {load} on 2 CPUs; to give it more time, set SKBLAB_BOOT_SECONDS=1" in text


def test_how_long_a_guest_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(patience.VARIABLE, raising=False)
    exact = GuestSpec(cpus=1, exact=True)
    assert [patience.limit(like) for like in (GuestSpec(), exact)] == [180, 600]
    assert patience.longest() == 600
    monkeypatch.setenv(patience.VARIABLE, "900.5")
    assert [patience.limit(like) for like in (GuestSpec(), exact)] == [900.5, 900.5]
    # RCU's word on a lost timer comes before skblab gives up: the guest is then booted again.
    assert spec.STALL_SECONDS + 30 <= patience.BOOT_SECONDS
    assert f"rcupdate.rcu_cpu_stall_timeout={spec.STALL_SECONDS}" in spec.TCG_ARGUMENTS
    # For ssh, which connects once QEMU listens and is answered once sshd runs.
    assert patience.longest() == 901
    for text in ("0", "-1", "long", "nan", "inf"):
        monkeypatch.setenv(patience.VARIABLE, text)
        with pytest.raises(UsageError, match=f"SKBLAB_BOOT_SECONDS={text}: expected a number of s"):
            patience.limit(GuestSpec())


def test_another_guests_cause_comes_before_this_ones(tmp_path: Path) -> None:
    made, _ = guest(tmp_path)
    say(tmp_path, f"skblab-init: {ENDED}")
    log = tmp_path / "kept.log"
    first = GuestError("guest panic: of the router; console: router.log")
    first.told = True
    with pytest.raises(GuestError) as said, made._explained(log):
        raise first
    assert str(said.value) == f"{first}; and then: the guest's {ENDED}; console: {log}"


def test_another_guests_cause_is_not_changed_where_this_one_is_well(tmp_path: Path) -> None:
    made, _ = guest(tmp_path, ends=False)
    first = GuestError("guest panic: of the router; console: router.log")
    first.told = True
    with pytest.raises(GuestError) as said, made._explained(tmp_path / "kept.log"):
        raise first
    assert str(said.value) == str(first)


def test_a_client_that_was_refused_tells_it_with_the_end_of_the_guest(tmp_path: Path) -> None:
    made, _ = guest(tmp_path)
    say(tmp_path, f"skblab-init: {ENDED}")
    error = TransportError(f"the guest's {ENDED} (no connection to root@guest: closed)")
    log = tmp_path / "kept.log"
    with pytest.raises(GuestError) as said, made._explained(log):
        raise error
    assert str(said.value) == f"{error}; console: {log}"
