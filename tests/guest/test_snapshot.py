# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that go on from one snapshot: each is one of its own, and none needs the snapshot."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.machine import snapshot
from skblab.machine.guest import Guest
from skblab_analysis.base.errors import SkblabWarning

pytestmark = pytest.mark.guest

LOOK = """
head -c 16 /dev/urandom | od -An -tx1
cat /proc/sys/kernel/random/boot_id
date +%s
cut -d' ' -f1 /proc/uptime
# What is mounted, and what is left of the root that it waited in.
findmnt -rn -o TARGET,FSTYPE | sort
ls /mnt | wc -l
"""


def folder_of(guest: Guest) -> Path | None:
    return guest._state


# Of a kernel that lost a timer there is no snapshot; the guest has booted, and a warning says so.
TRIES = 3


def look(lab: LabRoot, kernel: Kernel, *, exact: bool = False) -> list[str]:
    """Return what a guest says of itself, the time of the day among it, which is the host's."""
    spec = make_spec(exact=exact, tcg=True)
    fresh = not snapshot.suits(spec)
    for _ in range(TRIES):
        # It is told the time before it is started, and cuts what is less than a second.
        before = time.time()
        with Guest.boot(spec, kernel, lab) as guest:
            said = guest.transport.script(LOOK).check("looking around").stdout.splitlines()
            assert exact or before - 2 < float(said[2]) < time.time() + 2
            console = guest.console.path.read_text(errors="replace")
            assert console.count("Linux version ") == 1
            if (folder_of(guest) is None) is fresh:
                return said
    raise AssertionError("a guest was not made as it was to be")


@pytest.mark.slow
def test_two_of_one(lab: LabRoot, stock: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = look(lab, stock), look(lab, stock)
    monkeypatch.setenv(snapshot.VARIABLE, "off")
    fresh = look(lab, stock)
    for line in range(2):
        assert len({found[line] for found in (one, two, fresh)}) == 3
    for found in (one, two):
        assert found[4:] == fresh[4:]


@pytest.mark.slow
def test_two_that_count(lab: LabRoot, stock: Kernel) -> None:
    one, two = look(lab, stock, exact=True), look(lab, stock, exact=True)
    assert one[:2] != two[:2]
    # Both clocks go on where the snapshot ended.
    for found in (one, two):
        assert 1735689600 < float(found[2]) < 1735689600 + float(found[3]) + 10


@pytest.mark.slow
def test_a_damaged_one_is_made_anew(
    lab: LabRoot, stock: Kernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # One that nobody else has.
    spec = make_spec(tcg=True, arguments=[f"skblab.test={tmp_path.name}"])
    folders: list[Path] = []
    make = snapshot.ensure

    def ensure(*arguments: object) -> Path:
        folders.append(make(*arguments))  # type: ignore[arg-type]
        return folders[-1]

    monkeypatch.setattr(snapshot, "ensure", ensure)
    for _ in range(TRIES):
        with Guest.boot(spec, stock, lab) as guest:
            guest.transport.script("true").check("true")
        if folders:
            break
    state = folders[0] / snapshot.STATE
    with state.open("r+b") as file:
        file.write(bytes(4096))
    with (
        pytest.warns(SkblabWarning, match="come up from its snapshot: QEMU ended.*; booting"),
        Guest.boot(spec, stock, lab) as guest,
    ):
        guest.transport.script("true").check("true")
    assert not state.exists()
    with Guest.boot(spec, stock, lab) as guest:
        guest.transport.script("true").check("true")
    assert state.exists()
