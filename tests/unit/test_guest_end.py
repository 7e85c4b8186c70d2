# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a guest that ends: its sshd's last words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from skblab.guest import Guest, GuestSpec
from skblab.guest.console import Console

ENDED = "sshd ended (exit 255): Bad packet length"
AGAIN = "skblab-init: sshd starts again"


def say(folder: Path, *lines: str) -> None:
    with (folder / "console.log").open("a") as log:
        log.writelines(f"[    8.783264] {line}\n" for line in lines)


def guest(folder: Path, *, ends: bool = True) -> Guest:
    (folder / "qemu.log").touch()
    (folder / "console.log").touch()
    status = 0 if ends else None
    process = SimpleNamespace(poll=lambda: status, wait=lambda timeout: status)
    console = Console(folder / "console.log")
    return Guest(GuestSpec(), cast(Any, None), cast(Any, None), console, folder, cast(Any, process))


def test_a_guest_that_ended_says_what_its_sshd_said(tmp_path: Path) -> None:
    made = guest(tmp_path)
    assert made.trouble() == "the guest ended by itself (QEMU exit status 0)"
    say(tmp_path, f"skblab-init: {ENDED}", "sysrq: Power Off")
    assert made.trouble() == f"the guest's {ENDED}"


def test_the_end_of_an_sshd_is_no_trouble_while_the_guest_runs(tmp_path: Path) -> None:
    made = guest(tmp_path, ends=False)
    say(tmp_path, f"skblab-init: {ENDED}", AGAIN)
    assert made.trouble() is None
