# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs applied, read back and put back, on files of this machine; how often each is read."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from skblab.knobs import applying
from skblab.knobs.applying import Applier, Undo
from skblab.knobs.base import Knob, Unable
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, inside
from skblab.machine.transport import LocalTransport, Transport
from skblab.machine.transport.base import Done
from skblab_analysis.base.errors import SkblabError


@dataclass
class FileKnob:
    """A setting that is a file's content, in a namespace or of the whole machine."""

    file: Path
    everywhere: bool = True

    def get(self, machine: Machine) -> str:
        return f"cat {self.file}" if self.everywhere else inside(machine.netns, f"cat {self.file}")

    def state(self, printed: str) -> str:
        return printed.strip()

    def fits(self, printed: str, value: Value) -> None:
        assert printed.strip()

    def likely(self, machine: Machine) -> str:
        return ""

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        return str(value)

    def restore(self, machine: Machine, state: str) -> str:
        return f"echo {state} >{self.file}"


@dataclass
class Counted:
    """This machine, and what each script was."""

    asked: list[str] = field(default_factory=list)

    def script(self, text: str, *, seconds: float = 600) -> Done:
        self.asked.append(text)
        return LocalTransport().script(text.replace("ip netns exec router ", ""), seconds=seconds)

    def reads(self, file: Path) -> int:
        return sum(f"cat {file}" in script for script in self.asked)


@pytest.fixture
def knobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, FileKnob]:
    made = {name: FileKnob(tmp_path / name, everywhere=name == "budget") for name in ("a", "b")}
    made["budget"] = FileKnob(tmp_path / "budget")
    for knob in made.values():
        knob.file.write_text("first\n")
    monkeypatch.setattr(applying, "KNOBS", cast(dict[str, Knob], made))
    return made


def applier(machine: Counted, tmp_path: Path) -> Applier:
    devices = (Device("r0", "router"),)
    undo = Undo(tmp_path / "undo.jsonl")
    return Applier(cast(Transport, machine), Machine(devices, "router"), undo)


def test_what_is_read_after_a_trial_is_what_was_before_the_next(
    knobs: dict[str, FileKnob], tmp_path: Path
) -> None:
    machine = Counted()
    made = applier(machine, tmp_path)
    found = made.apply({"a": "x"})
    assert [(row.before, row.wanted, row.after) for row in found] == [("first", "x", "x")]
    assert machine.reads(knobs["a"].file) == 2
    knobs["a"].file.write_text("drifted\n")
    assert made.look(found)[0].invalid
    # One is known from then; the other was not looked at.
    found = made.apply({"a": "y", "b": "z"})
    assert [(row.before, row.after) for row in found] == [("drifted", "y"), ("first", "z")]
    assert (machine.reads(knobs["a"].file), machine.reads(knobs["b"].file)) == (4, 2)
    # What was applied since is read anew.
    assert [row.before for row in made.apply({"a": "y"})] == ["y"]
    assert knobs["b"].file.read_text() == "first\n"


def test_what_puts_it_back_is_on_the_disk_before_anything_is_turned(
    knobs: dict[str, FileKnob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = list[tuple[str, str]]()

    def note(descriptor: int) -> None:
        there = Path(f"/proc/self/fd/{descriptor}").read_text()
        flushed.append((json.loads(there)["script"], knobs["a"].file.read_text()))

    monkeypatch.setattr(os, "fsync", note)
    applier(Counted(), tmp_path).apply({"a": "x"})
    assert flushed == [(f"echo first >{knobs['a'].file}", "first\n")]
    assert knobs["a"].file.read_text() == "x\n"


def test_what_was_read_before_a_trial_failed_is_read_again(
    knobs: dict[str, FileKnob], tmp_path: Path
) -> None:
    made = applier(Counted(), tmp_path)
    made.look(made.apply({"a": "x"}))
    knobs["a"].file.write_text("reset\n")
    made.forget()
    assert [(row.before, row.after) for row in made.apply({"a": "x"})] == [("reset", "x")]


def test_a_namespace_is_entered_once_for_all_that_look_into_it(
    knobs: dict[str, FileKnob], tmp_path: Path
) -> None:
    machine = Counted()
    applier(machine, tmp_path).apply(dict.fromkeys(knobs, "first"))
    [one, other] = machine.asked
    assert one == other
    assert one.count("ip netns exec router") == 1
    assert one.index(f"cat {knobs['budget'].file}") < one.index("ip netns exec")


def test_a_setting_that_does_not_fit_an_argument_is_read_by_itself(
    knobs: dict[str, FileKnob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "LONGEST", 10)
    machine = Counted()
    found = applier(machine, tmp_path).apply({"a": "x", "budget": 3})
    assert [row.after for row in found] == ["x", "3"]


def test_what_makes_others_anew_is_turned_and_put_back_before_them(
    knobs: dict[str, FileKnob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "REMAKING", frozenset({"budget"}))

    def remaking(machine: Machine, state: str) -> str:
        return f"echo {state} >{knobs['budget'].file}; echo anew >{knobs['a'].file}"

    knobs["budget"].restore = remaking  # type: ignore[method-assign]
    made = applier(Counted(), tmp_path)
    made.look(made.apply({"a": "x"}))
    # What was seen of `a` is no longer so.
    found = made.look(made.apply({"a": "x", "budget": "2"}))
    assert [(row.knob, row.before, row.after) for row in found] == [
        ("a", "anew", "x"),
        ("budget", "first", "2"),
    ]
    # It is put back before the others, which are what they were then.
    assert [(row.before, row.after) for row in made.apply({"a": "x"})] == [("first", "x")]
    assert knobs["budget"].file.read_text() == "first\n"


@dataclass
class Coarse(FileKnob):
    """As `threaded`: it sets its own file and that of the fine one, as `napi_threaded`."""

    fine: Path = Path("/nonexistent")

    def restore(self, machine: Machine, state: str) -> str:
        return f"echo {state} >{self.file}; echo {state} >{self.fine}"


ALIKE_SETTINGS: Mapping[str, tuple[dict[str, Value], tuple[str, str]]] = {
    "baseline": ({"a": "0"}, ("0", "0")),
    "threads": ({"a": "1"}, ("1", "1")),
    "napi on": ({"a": "0", "b": "1"}, ("0", "1")),
    "napi busy": ({"b": "2", "a": "0"}, ("0", "2")),
    "threads, napi off": ({"b": "0", "a": "1"}, ("1", "0")),
    "napi alone": ({"b": "1"}, ("0", "1")),
}


@pytest.mark.parametrize("first", ALIKE_SETTINGS)
def test_knobs_of_the_same_thing_hold_in_any_order(
    knobs: dict[str, FileKnob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """What the last setting left was taken for what was first, or for what the next wants."""
    fine = knobs["b"]
    coarse = Coarse(knobs["a"].file, fine=fine.file)
    monkeypatch.setattr(applying, "KNOBS", {"a": coarse, "b": fine})
    monkeypatch.setattr(applying, "ALIKE", [frozenset({"a", "b"})])
    coarse.file.write_text("0\n")
    fine.file.write_text("0\n")
    local = LocalTransport()
    undo = Undo(tmp_path / "undo.jsonl")
    made = Applier(cast(Transport, Counted()), Machine((Device("r0", None),), None), undo)
    others = [name for name in ALIKE_SETTINGS if name != first]
    for second, third in itertools.permutations(others, 2):
        order = (first, second, third)
        for name in order:
            settings, states = ALIKE_SETTINGS[name]
            found = made.apply(settings)
            assert not any(one.invalid for one in found), (order, name, found)
            assert (coarse.file.read_text().strip(), fine.file.read_text().strip()) == states, order
        made.apply({})
        assert coarse.file.read_text() == fine.file.read_text() == "0\n"
    made.apply({"a": "1"})
    assert undo.replay(local) == []
    assert coarse.file.read_text() == fine.file.read_text() == "0\n"


# A made-up NIC of four queues, as Linux has them: what RPS is for each queue goes with it, and the
# table follows the number of queues but where somebody has set it; then it keeps its queues.
NIC = {
    "queues": """
        [ ! -e configured ] || [ "$(cat table)" -le {0} ]
        echo {0} >queues
        for at in 1 2 3 4; do
            if [ "$at" -gt {0} ]; then rm -f "rps-$at"; elif [ ! -e "rps-$at" ]; then
            echo 0 >"rps-$at"; fi
        done
        [ -e configured ] || echo {0} >table
    """,
    "rss": """
        [ {0} -le "$(cat queues)" ]
        rm -f configured
        [ {0} = "$(cat queues)" ] || : >configured
        echo {0} >table
    """,
    "rps": """
        at=0
        for mask in {0}; do at=$((at + 1)); [ -e "rps-$at" ]; echo "$mask" >"rps-$at"; done
    """,
}
READ = {"queues": "cat queues", "rss": "cat table", "rps": "cat rps-*"}


@dataclass
class NicKnob:
    """A setting of the made-up NIC in a folder."""

    folder: Path
    name: str

    def get(self, machine: Machine) -> str:
        return f"cd {self.folder}\n{READ[self.name]}"

    def state(self, printed: str) -> str:
        return " ".join(printed.split())

    def fits(self, printed: str, value: Value) -> None:
        assert printed.strip()

    def likely(self, machine: Machine) -> str:
        return ""

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        return " ".join([str(value)] * len(before.split()))

    def restore(self, machine: Machine, state: str) -> str:
        return f"cd {self.folder}\n{NIC[self.name].format(state)}"


def nic(folder: Path) -> tuple[str, ...]:
    """Return all that it is."""
    return tuple(f"{file.name}={file.read_text().strip()}" for file in sorted(folder.iterdir()))


@pytest.mark.parametrize(
    "settings",
    [
        [{"queues": 2, "rss": 1}, {}],
        [{"rps": 1}, {"queues": 1}, {"rps": 1}],
        [{"queues": 1, "rps": 1}, {"queues": 1}, {"rss": 3}],
        [{"rss": 3}, {"queues": 2, "rss": 2}, {"queues": 3, "rss": 1}, {"queues": 1}],
        [{"queues": 3, "rss": 2, "rps": 1}, {"rss": 2, "rps": 1}, {"queues": 2, "rps": 1}, {}],
    ],
)
def test_what_a_queue_has_is_put_back_while_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[dict[str, Value]]
) -> None:
    folder = tmp_path / "nic"
    folder.mkdir()
    made = {name: NicKnob(folder, name) for name in NIC}
    LocalTransport().script(made["queues"].restore(Machine((), None), "4")).check("a NIC")
    monkeypatch.setattr(applying, "KNOBS", made)
    first = nic(folder)
    knobs = applier(Counted(), tmp_path)
    # The first alone, the first two, and so on: each way it ends has to be undone.
    for number, setting in enumerate(settings):
        found = knobs.look(knobs.apply(setting))
        assert [row for row in found if row.invalid] == []
        assert {row.knob: row.after.split()[0] for row in found} == {
            name: str(value) for name, value in setting.items()
        }
        if "rss" not in setting:
            assert (folder / "table").read_text() == (folder / "queues").read_text()
        left = tmp_path / f"left-{number}"
        shutil.copytree(folder, left)
        text = (tmp_path / "undo.jsonl").read_text() if (tmp_path / "undo.jsonl").exists() else ""
        (tmp_path / "copy.jsonl").write_text(text.replace(str(folder), str(left)))
        assert Undo(tmp_path / "copy.jsonl").replay(LocalTransport()) == []
        assert nic(left) == first
    knobs.apply({})
    assert nic(folder) == first


def test_what_cannot_be_set_is_told(knobs: dict[str, FileKnob], tmp_path: Path) -> None:
    knobs["a"].restore = lambda machine, state: "echo no >&2; exit 1"  # type: ignore[method-assign]
    with pytest.raises(SkblabError, match="not set: a: no"):
        applier(Counted(), tmp_path).apply({"a": "x"})
    # A write that fails; dash has the same words for all of them.
    knobs["a"].restore = lambda machine, state: "echo 7 >/dev/full"  # type: ignore[method-assign]
    with pytest.raises(SkblabError, match="not set: a: the kernel refuses this value"):
        applier(Counted(), tmp_path).apply({"a": "x"})


def test_what_a_driver_has_not_is_impossible(knobs: dict[str, FileKnob], tmp_path: Path) -> None:
    refuses = "echo 'netlink error: Operation not supported' >&2; exit 1"
    knobs["a"].restore = lambda machine, state: refuses  # type: ignore[method-assign]
    with pytest.raises(Unable, match="not set: a: netlink error: Operation not supported"):
        applier(Counted(), tmp_path).apply({"a": "x"})
    # Beside something else that went wrong, it is an error.
    knobs["b"].restore = lambda machine, state: "echo no >&2; exit 1"  # type: ignore[method-assign]
    with pytest.raises(SkblabError, match="not set: ") as caught:
        applier(Counted(), tmp_path).apply({"a": "x", "b": "y"})
    assert not isinstance(caught.value, Unable)
