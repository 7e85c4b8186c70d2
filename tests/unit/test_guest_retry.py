# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest whose QEMU fails an assertion of its own while booting is booted again."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from skblab.lab.guest import GuestSpec, eventlog
from skblab.lab.guest.console import Console
from skblab.lab.guest.errors import GuestError
from skblab.lab.guest.spec import Accel
from skblab.machine import guest, halted, snapshot
from skblab.machine.guest import Guest
from skblab_analysis.base.errors import SkblabError, SkblabWarning

BROKEN = "qemu-system-x86_64: physmem.c:2671: iotlb_to_section: Assertion `x' failed.\n"

AGAIN = f"QEMU failed an assertion of its own: {BROKEN.strip()[:-1]}; booting the guest again"


class Fake(Guest):
    """A guest without QEMU, of which the first so many say `words` and end."""

    broken = 0
    words = BROKEN
    printed = ""
    like = GuestSpec()
    starts = 0
    ends: ClassVar[list[str]] = []

    @classmethod
    def _start(cls, *arguments: object) -> Guest:
        folder = cast(Path, arguments[-3])
        Fake.starts += 1
        (folder / "console.log").touch()
        (folder / "qemu.log").write_text(cls.words if Fake.starts <= cls.broken else "")
        if Fake.starts <= cls.broken:
            (folder / "console.log").write_text(cls.printed)
        none, kernel = cast(Any, None), cast(Any, SimpleNamespace(key="key"))
        made = cls(cls.like, kernel, none, Console(folder / "console.log"), folder)
        made._state = cast(Path | None, arguments[-1])
        if made._state is not None:
            made._inode = (made._state / snapshot.STATE).stat().st_ino
        return made

    def _connect(self) -> None:
        if said := (self.folder / "qemu.log").read_text():
            raise GuestError(f"QEMU ended: {said}")

    def raise_if_dead(self) -> None:
        pass

    @contextlib.contextmanager
    def _explained(self, log: Path | None) -> Iterator[None]:
        yield

    def _power_off(self) -> None:
        pass

    def _end(self, event: str = eventlog.ENDED) -> None:
        Fake.ends.append(event)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    monkeypatch.setenv(snapshot.VARIABLE, "off")
    monkeypatch.setattr(Fake, "starts", 0)
    monkeypatch.setattr(Fake, "ends", [])


def boot(*, wait: bool = True) -> None:
    none, kernel = cast(Any, None), cast(Any, SimpleNamespace(key="key"))
    with Fake.boot(GuestSpec(), kernel, none, wait=wait) as guest:
        if not wait:
            guest.connect()


@pytest.mark.parametrize(
    ("broken", "wait", "starts"),
    [(0, True, 1), (1, True, 2), (1, False, 2), (2, True, 3)],
    ids=[
        "a guest that boots",
        "one whose QEMU broke",
        "one that booted beside others",
        "one whose QEMU broke on a busy machine",
    ],
)
def test_it_boots(monkeypatch: pytest.MonkeyPatch, broken: int, wait: bool, starts: int) -> None:
    monkeypatch.setattr(Fake, "broken", broken)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        boot(wait=wait)
    assert Fake.starts == starts
    # The user is told of each that was not the first.
    assert [str(warning.message) for warning in said] == [AGAIN] * (starts - 1)
    # Whoever looks for complaints of kernels tells those of one that was booted again apart.
    assert Fake.ends == [eventlog.AGAIN] * (starts - 1) + [eventlog.ENDED]


def test_one_whose_first_cpu_is_halted_boots_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Fake, "broken", 1)
    monkeypatch.setattr(Fake, "words", halted.SAID)
    monkeypatch.setattr(Fake, "printed", "[    1.9] netconsole: network logging started\n")
    monkeypatch.setattr(Fake, "_is_halted", lambda self: Fake.starts == 1)
    with pytest.warns(SkblabWarning) as warned:
        boot()
    assert Fake.ends == [eventlog.AGAIN, eventlog.ENDED]
    (kept,) = (tmp_path / "logs").glob("guest-*.log")
    assert "netconsole" in kept.read_text()
    said = [str(warning.message) for warning in warned]
    assert said == [f"{halted.SAID} (console: {kept}); booting the guest again"]


STALL = "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"
TIMER = "rcu: rcu_preempt kthread timer wakeup didn't happen for 29998 jiffies! g-1159 f0x0"
KASAN = "BUG: KASAN: wild-memory-access in rcu_is_watching+0x38/0x60"
WARNED = "WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 napi_enable+0x1/0x2"


@pytest.mark.parametrize(
    ("printed", "accel", "starts"),
    [
        ((STALL, TIMER), "tcg", 2),
        ((STALL, TIMER), "kvm", 1),
        ((STALL,), "tcg", 1),
        ((WARNED, STALL, TIMER), "tcg", 1),
        ((STALL, TIMER, KASAN), "tcg", 1),
        ((KASAN,), "tcg", 1),
    ],
)
def test_only_a_timer_lost_while_an_emulated_kernel_starts_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    printed: tuple[str, ...],
    accel: Accel,
    starts: int,
) -> None:
    text = "".join(f"[  121.030030] {line}\n" for line in printed)
    monkeypatch.setattr(Fake, "broken", 1)
    monkeypatch.setattr(Fake, "printed", text)
    monkeypatch.setattr(Fake, "like", GuestSpec(accel=accel))
    monkeypatch.setattr(guest, "DUMP_SECONDS", 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(SkblabError) if starts == 1 else contextlib.nullcontext():
            boot()
    assert Fake.starts == starts
    kept = [log.read_text() for log in (tmp_path / "logs").glob("guest-*.log")]
    assert kept == [text] * (starts - 1)
    assert len(said) == starts - 1
    for warning in said:
        assert str(warning.message).startswith("a timer of the guest's RCU was lost")


@pytest.mark.parametrize(
    ("words", "starts"), [(BROKEN, guest.BOOTS), ("qemu-system-x86_64: no such device\n", 1)]
)
def test_what_does_not_go_away_is_said(
    monkeypatch: pytest.MonkeyPatch, words: str, starts: int
) -> None:
    monkeypatch.setattr(Fake, "broken", 9)
    monkeypatch.setattr(Fake, "words", words)
    with warnings.catch_warnings(), pytest.raises(SkblabError, match="QEMU ended"):
        warnings.simplefilter("ignore", SkblabWarning)
        boot()
    assert Fake.starts == starts


NOT_LOADED = "qemu-system-x86_64: load of migration failed: Invalid argument"


def test_a_guest_that_cannot_go_on_from_its_snapshot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "snapshots" / "key"
    state.mkdir(parents=True)
    (state / snapshot.STATE).touch()
    monkeypatch.setattr(Fake, "_snapshot", lambda *arguments: (state, None))
    monkeypatch.setattr(Fake, "words", NOT_LOADED)
    monkeypatch.setattr(Fake, "broken", 1)
    monkeypatch.setattr(Fake, "trouble", lambda self: f"QEMU ended: {NOT_LOADED}")
    said = (
        f"a guest did not come up from its snapshot: QEMU ended: {NOT_LOADED}; "
        "booting the guest again"
    )
    with pytest.warns(SkblabWarning) as warned:
        boot()
    assert [str(warning.message) for warning in warned] == [said]
    assert Fake.starts == 2
    assert not state.exists()
    assert Fake.ends == [eventlog.AGAIN, eventlog.ENDED]


def test_a_guest_that_is_killed_is_not_booted_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / snapshot.STATE).touch()
    monkeypatch.setattr(Fake, "_snapshot", lambda *arguments: (tmp_path, None))
    monkeypatch.setattr(Fake, "words", "unshare: sigprocmask: no")
    monkeypatch.setattr(Fake, "broken", 1)
    monkeypatch.setattr(Fake, "trouble", lambda self: guest.KILLED)
    with pytest.raises(GuestError):
        boot()
    assert Fake.starts == 1
    assert (tmp_path / snapshot.STATE).exists()


@pytest.mark.parametrize("broken", [0, 1], ids=["one that boots", "one that does not"])
def test_a_guest_without_a_snapshot(monkeypatch: pytest.MonkeyPatch, broken: int) -> None:
    """Where the guest does not come up either, that is what is told."""

    def fails(*arguments: object) -> Path:
        raise SkblabError("it is full")

    monkeypatch.setenv(snapshot.VARIABLE, "on")
    monkeypatch.setattr(snapshot, "ensure", fails)
    monkeypatch.setattr(guest, "_shared", lambda *arguments: [])
    monkeypatch.setattr(Fake, "words", "no such device")
    monkeypatch.setattr(Fake, "broken", broken)
    said = "there is no snapshot of the guest, which has booted: it is full"
    refused = pytest.raises(GuestError, match="no such device")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with refused if broken else contextlib.nullcontext():
            boot()
    assert [str(one.message) for one in warned] == [said] * (1 - broken)
    assert Fake.starts == 1
