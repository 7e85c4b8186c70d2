# SPDX-License-Identifier: GPL-2.0-or-later
"""Which guests begin in a snapshot, which they share, and what goes wrong when one is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skblab.lab import store
from skblab.lab.guest import first
from skblab.lab.guest.errors import GuestError
from skblab.lab.guest.spec import GuestSpec, Nic
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine import snapshot
from skblab_analysis.base.errors import SkblabError, UsageError

NIC = Nic(tap="tap0", mac="52:54:00:00:00:01")
RUN = Bind(Path("/run"), "run", writable=True)


@pytest.mark.parametrize(
    ("spec", "suits"),
    [
        (GuestSpec(), True),
        (GuestSpec(exact=True, cpus=1), True),
        (GuestSpec(patient=True), True),
        (GuestSpec(accel="kvm"), False),
        # Its driver has drawn a key of RSS by then.
        (GuestSpec(nics=(NIC,)), False),
    ],
    ids=["wall", "exact", "debug", "KVM", "devices"],
)
def test_which_guests_suit(spec: GuestSpec, suits: bool) -> None:
    assert snapshot.suits(spec) is suits


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, suits in (("on", True), ("", True), ("off", False)):
        monkeypatch.setenv(snapshot.VARIABLE, said)
        assert snapshot.suits(GuestSpec()) is suits
    monkeypatch.setenv(snapshot.VARIABLE, "never")
    with pytest.raises(UsageError, match="SKBLAB_SNAPSHOTS=never: expected on or off"):
        snapshot.suits(GuestSpec())


class Lab:
    """A kernel, a lab root and a first program, of which `key` is a guest's snapshot."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = LabRoot(folder, "root")
        self.cpuinfo, self.host = folder / "cpuinfo", folder / "boot_id"
        self.cpuinfo.write_text("processor: 0\nmodel name: one\n")
        self.host.write_text("its boot")
        monkeypatch.setattr(snapshot, "CPUINFO", self.cpuinfo)
        monkeypatch.setattr(snapshot, "BOOT_ID", self.host)
        self.versions(qemu="10.0")
        self.kernel = Kernel(folder / "kernel", "its key says nothing")
        self.kernel.path.mkdir()
        self.kernel.image.write_bytes(b"image")
        self.first, self.files = folder / first.PROGRAM, folder / first.FILES
        self.first.write_bytes(b"program")
        self.files.write_bytes(b"usr/bin/sh")
        self.spec = GuestSpec()
        self.shared = [RUN]
        monkeypatch.setattr(first, "ensure", lambda labroot: folder)
        monkeypatch.setattr(store, "ensure", lambda kind, key, reporter, build: f"{kind}/{key}")

    def versions(self, qemu: str) -> None:
        file = self.root.path / "skblab" / "versions.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"qemu-system-x86": qemu, "gcc-14": "14.2"}))

    def key(self) -> str:
        return str(snapshot.ensure(self.spec, self.kernel, self.root, self.shared, set()))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def others(lab: Lab) -> Iterator[str]:
    """Yield what a guest of another snapshot differs by, while it does."""
    for field, value in {
        "spec": GuestSpec(cpus=3),
        "shared": [RUN, Bind(Path("/b"), "build")],
        "root": replace(lab.root, key="another"),
    }.items():
        before = getattr(lab, field)
        setattr(lab, field, value)
        yield field
        setattr(lab, field, before)
    for file in (lab.kernel.image, lab.first, lab.files, lab.host, lab.cpuinfo):
        content = file.read_bytes()
        file.write_bytes(b"model name: another")
        yield file.name
        file.write_bytes(content)
    lab.versions(qemu="10.1")
    yield "versions"
    lab.versions(qemu="10.0")
    (lab.kernel.path / "initrd").write_bytes(b"initrd")
    yield "initrd"


def test_what_a_snapshot_is_of(made: Lab) -> None:
    keys = {"": made.key()} | {what: made.key() for what in others(made)}
    assert len(keys) == 11
    assert len(set(keys.values())) == 11


def test_instructions_are_counted_alike_on_any_host(made: Lab) -> None:
    made.spec = GuestSpec(exact=True, cpus=1)
    key = made.key()
    made.host.write_text("another")
    made.cpuinfo.write_text("model name: another")
    assert made.key() == key


def test_boots_that_are_samples_have_one_each(made: Lab) -> None:
    keys = set()
    for sample in range(3):
        made.spec = GuestSpec(sample=sample)
        keys.add(made.key())
    assert len(keys) == 3


def test_what_it_is_not_of(made: Lab) -> None:
    key = made.key()
    made.spec = GuestSpec(plugin="count.so")
    assert made.key() == key
    # The folder that is shared, and not where it is on the host.
    made.shared = [Bind(Path("/elsewhere"), "run", writable=True)]
    assert made.key() == key


def test_each_guest_has_a_seed_of_its_own() -> None:
    seeds = {snapshot.word(GuestSpec(exact=True, cpus=1)) for _ in range(5)}
    assert len(seeds) == 5
    assert {len(seed) for seed in seeds} == {2 * snapshot.SEED_BYTES + 1}
    seed, seconds = snapshot.word(GuestSpec()).split()
    assert abs(float(seconds) - time.time()) < 60
    assert len(bytes.fromhex(seed.decode())) == snapshot.SEED_BYTES


# Answers as QEMU does on -qmp stdio, with events in between.
QMP = """
import json, sys
answers = dict({answers})
print('{"QMP": {"version": {}}}', flush=True)
for line in sys.stdin:
    asked = json.loads(line)["execute"]
    print('{"event": "RESUME"}', flush=True)
    given = answers[asked]
    answer = given.pop(0) if isinstance(given, list) else given
    if answer == "ends":
        sys.exit(1)
    print(json.dumps(answer), flush=True)
    if asked == "quit":
        break
"""
DONE: dict[str, Any] = {"return": {}}
WELL: dict[str, Any] = {
    "qmp_capabilities": DONE,
    "migrate-set-parameters": DONE,
    "migrate": DONE,
    "query-migrate": [
        {"return": {"status": "active"}},
        {"return": {"status": "completed"}},
    ],
    "quit": DONE,
}


def save(folder: Path, **answers: object) -> None:
    given = WELL | {name.replace("_m", "-m"): answer for name, answer in answers.items()}
    code = QMP.replace("{answers}", repr(given))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as qemu:
        snapshot._save(qemu)
        assert qemu.wait(timeout=60) == 0


def test_qemu_writes_it(tmp_path: Path) -> None:
    save(tmp_path)


@pytest.mark.parametrize(
    ("answers", "kind", "said"),
    [
        (
            {"query_migrate": {"return": {"status": "failed", "error-desc": "File too large"}}},
            SkblabError,
            "QEMU cannot write the guest down: File too large",
        ),
        (
            {"migrate": {"error": {"desc": "State blocked by a device"}}},
            SkblabError,
            "QEMU's migrate failed: State blocked by a device",
        ),
        ({"migrate": "ends"}, GuestError, "QEMU ended at migrate"),
    ],
    ids=["a full disk", "something in the way", "no QEMU"],
)
def test_qemu_cannot_write_it(
    tmp_path: Path, answers: dict[str, object], kind: type[SkblabError], said: str
) -> None:
    with pytest.raises(SkblabError) as raised:
        save(tmp_path, **answers)
    assert type(raised.value) is kind
    assert str(raised.value) == said


def wait(folder: Path, status: int | None, word: bytes = b"") -> None:
    ours = snapshot.make_pipe(folder)
    try:
        with snapshot._said_by(folder) as said:
            end = os.open(folder / f"{snapshot.PIPE}.out", os.O_RDWR)
            os.write(end, word)
            os.close(end)
            qemu = cast(Any, SimpleNamespace(poll=lambda: status, pid=os.getpid()))
            snapshot._wait(qemu, folder, said, 0.1)
    finally:
        os.close(ours)


def test_what_leads_nowhere_is_removed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    folder = tmp_path / "snapshots" / "key"
    folder.mkdir(parents=True)
    state = folder / snapshot.STATE
    state.write_bytes(b"bad")
    number = state.stat().st_ino
    # Another one that was made meanwhile stays.
    snapshot.discard(folder, number + 1)
    assert state.exists()
    snapshot.discard(folder, number)
    assert not folder.exists()
    snapshot.discard(folder, number)


@pytest.mark.parametrize(
    ("console", "log", "status", "said"),
    [
        ("[    1.0] Kernel panic - not syncing: x\n", "", None, "guest panic: Kernel panic"),
        ("", "qemu-system-x86_64: no such device\n", 1, "QEMU ended: qemu-system-x86_64: no such"),
        ("", "", -9, "QEMU ended: it said nothing"),
        ("[    1.0] Linux version\n", "", None, "was not up after 0 s: skblab waited for its ker"),
    ],
    ids=["a panic", "bad arguments", "killed", "never comes"],
)
def test_a_guest_that_does_not_come_so_far(
    tmp_path: Path, console: str, log: str, status: int | None, said: str
) -> None:
    (tmp_path / snapshot.CONSOLE).write_text(console)
    (tmp_path / "qemu.log").write_text(log)
    with pytest.raises(GuestError, match=said):
        wait(tmp_path, status)


def test_a_guest_that_waits(tmp_path: Path) -> None:
    """Whatever its kernel says, or does not say where its command line has `quiet`."""
    wait(tmp_path, None, snapshot.WAITS)
