# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs applied to a machine, read back, and put back whatever happens.

Before a knob is set, the script that undoes it is in the undo journal, flushed to disk. A run
that ends undoes what it did, last first; what a killed one left, `Undo.replay` undoes later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel

from skblab.knobs.base import Knob, Reversible, Unable
from skblab.knobs.registry import ALIKE, KNOBS, REMAKING
from skblab.knobs.values import Value
from skblab.machine.device import Machine, script_inside
from skblab.machine.transport import Transport, TransportError
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RefusedError, parse
from skblab_analysis.base.errors import SkblabError, one_line, understood

# Characters of an argument (MAX_ARG_STRLEN has 128 KiB), which a script that runs inside is.
LONGEST = 100_000
# What dash says of any error of a write.
REFUSED = re.compile(r"^sh: \d+: echo: echo: I/O error$")
# EOPNOTSUPP, as ethtool, ip and the shell say it.
NOT_SUPPORTED = "Operation not supported"
# Between what knobs print.
_MARK = "skblab-knob"


class NotPutBackError(SkblabError):
    """All went well, but for settings that could not be put back."""


@dataclass(frozen=True)
class Applied:
    """A knob's reading in a trial: what it was before, was to be, and was found to be after."""

    knob: str
    value: Value
    before: str
    wanted: str
    after: str

    @property
    def invalid(self) -> bool:
        """The trial does not count: it did not have the setting."""
        return self.after != self.wanted


def require_set(was_set: Sequence[Applied]) -> None:
    """Raise RefusedError if a knob is not what it was to be."""
    for reading in was_set:
        if reading.invalid:
            raise RefusedError(
                f"{reading.knob} was to be {reading.wanted}, and was {reading.after}"
            )


class _Entry(BaseModel):
    """A line of the undo journal."""

    knob: str
    script: str


class Undo:
    """The undo journal: a file with a line for each script that puts something back."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, knob: str, script: str) -> None:
        """Add a script, on disk before this returns."""
        with self.file.open("a") as file:
            file.write(_line(knob, script))
            file.flush()
            os.fsync(file.fileno())

    def scripts(self) -> list[tuple[str, str]]:
        """Return knob and script of each, last first; what a kill cut was not acted on yet."""
        if not self.file.exists():
            return []
        found = []
        *whole, _ = self.file.read_bytes().split(b"\n")
        for number, line in enumerate(whole, 1):
            entry = parse(_Entry, line, f"{self.file} line {number}, what puts a setting back,")
            found.append((entry.knob, entry.script))
        return found[::-1]

    def replay(self, transport: Transport) -> list[str]:
        """Put everything back; return what could not be, in words.

        The journal has only that afterwards: what was put back is not put back again. It goes if
        all was.
        """
        failed = _do(transport, self.scripts())
        if failed:
            lines = (_line(one.knob, one.script) for one in reversed(failed))
            disk.write_whole(self.file, "".join(lines))
        else:
            self.file.unlink(missing_ok=True)
        return [one.why for one in failed]


def _line(knob: str, script: str) -> str:
    return json.dumps({"knob": knob, "script": script}) + "\n"


@dataclass(frozen=True)
class _Failed:
    """A knob's script that failed, and why, in words."""

    knob: str
    script: str
    why: str


def _do(transport: Transport, scripts: Sequence[tuple[str, str]]) -> list[_Failed]:
    """Run each knob's script; return what failed, in the same order.

    One may need another's first, as segmentation needs checksums: what fails is tried again as long
    as something else succeeds.
    """
    waiting = list(scripts)
    while waiting:
        failed = []
        for knob, script in waiting:
            done = transport.script(script)
            if done.status != 0:
                said = REFUSED.sub("the kernel refuses this value", one_line(done.stderr))
                why = f"{knob}: {said or f'exit {done.status}'}"
                failed.append(_Failed(knob, script, why))
        if len(failed) == len(waiting):
            return failed
        waiting = [(one.knob, one.script) for one in failed]
    return []


def _of(name: str, knobs: Mapping[str, Knob] | None) -> Knob:
    return (KNOBS if knobs is None else knobs)[name]


def state(
    name: str, machine: Machine, printed: str, knobs: Mapping[str, Knob] | None = None
) -> str:
    """Return the state in what a knob's script printed; SkblabError if there is no whole one.

    Here and below, `knobs` are those that there are: those of skblab by default.
    """
    # What is wanted is made of what was found: a device that is not in it would keep what it has,
    # and nobody would see it.
    knob = _of(name, knobs)
    likely = knob.likely(machine)
    with understood(f"what the machine says of {name}", printed):
        known = knob.state(printed)
        for word in (device.name for device in machine.devices):
            if _has(likely, word) and not _has(known, word):
                raise ValueError(f"it has nothing of {word}")
        if not known.strip():
            raise ValueError("it has no value")
        return known


def _has(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", text) is not None


def fitting(name: str, printed: str, value: Value, knobs: Mapping[str, Knob] | None = None) -> None:
    """Raise Unable for a value that the machine cannot have; SkblabError if it does not say."""
    with understood(f"what the machine says of {name}", printed):
        _of(name, knobs).fits(printed, value)


def wanted(
    name: str,
    machine: Machine,
    value: Value,
    before: str,
    knobs: Mapping[str, Knob] | None = None,
) -> str:
    """Return the state that a value is where it was `before`; SkblabError if that is none."""
    with understood(f"the state of {name}", before):
        return _of(name, knobs).wanted(machine, value, before)


def restoring(
    name: str, machine: Machine, known: str, knobs: Mapping[str, Knob] | None = None
) -> str:
    """Return the script that makes a state so; SkblabError if that is none."""
    with understood(f"the state of {name}", known):
        return _of(name, knobs).restore(machine, known)


def undoing(
    name: str, machine: Machine, known: str, knobs: Mapping[str, Knob] | None = None
) -> str:
    """Return the script that puts back the state that there was; SkblabError if that is none."""
    knob = _of(name, knobs)
    if not isinstance(knob, Reversible):
        return restoring(name, machine, known, knobs)
    with understood(f"the state of {name}", known):
        return knob.put_back(machine, known)


class Applier:
    """Sets knobs of one machine; `knobs` are those that there are, if not skblab's alone."""

    def __init__(
        self,
        transport: Transport,
        machine: Machine,
        undo: Undo,
        knobs: Mapping[str, Knob] | None = None,
    ) -> None:
        self._transport, self._machine, self._undo = transport, machine, undo
        self._knobs = KNOBS if knobs is None else knobs
        # State of each knob that was set, before it was the first time.
        self._first: dict[str, str] = {}
        # What `look` read last; nothing was set since.
        self._seen: dict[str, str] = {}

    def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
        """Set these knobs, and put back others that were set; return what was read.

        Those that have a driver make others' objects anew come first, and the others are read then.
        Raises Unable for a value that the machine cannot have: of those that come first, before any
        was set. What was set is put back by the next settings.
        """
        remaking = {name: value for name, value in settings.items() if name in REMAKING}
        others = {name: value for name, value in settings.items() if name not in REMAKING}
        before = self._fitting(remaking)
        wanted = self._wanted(remaking, before)
        if self._made_anew(settings, before, wanted):
            # What the others were first is of the objects that there were then: as these are put
            # back, and read before there are others.
            self._put_back()
            first = self._states(settings)
            for name in (*others, *remaking):
                self._note(name, first[name])
            before = {name: first[name] for name in remaking}
            wanted = self._wanted(remaking, before)
            self._change(_differing(wanted, before), before)
        self._put_back_alike(settings)
        before |= self._fitting(others)
        wanted |= self._wanted(others, before)
        gone = {name: first for name, first in self._first.items() if name not in settings}
        asked = _differing({name: wanted[name] for name in others}, before)
        for some in ALIKE:
            # What one of them sets the next may undo: the coarse one comes first, then the others.
            if some & asked.keys():
                again = [name for name in self._knobs if name in some & others.keys()]
                asked = {name: one for name, one in asked.items() if name not in some}
                asked |= {name: wanted[name] for name in again}
        self._change(asked, before, back=gone)
        for name in gone:
            del self._first[name]
        self._seen = {}
        after = self._states(settings)
        return [
            Applied(name, value, before[name], wanted[name], after[name])
            for name, value in settings.items()
        ]

    def _put_back_alike(self, settings: Mapping[str, Value]) -> None:
        """Put back what was set of a thing that several knobs set, before any of them is read.

        What one of them has left would look to another one as if it were there first, or as what
        it wants, and be put back only then.
        """
        for some in ALIKE:
            was_set = [name for name in self._first if name in some]
            if was_set and len(some & (self._first.keys() | settings.keys())) > 1:
                self._change({}, {}, back={name: self._first[name] for name in reversed(was_set)})
                for name in was_set:
                    del self._first[name]

    def _made_anew(
        self, settings: Mapping[str, Value], before: Mapping[str, str], wanted: Mapping[str, str]
    ) -> bool:
        """Return whether others' objects will be made anew, or have to be to put others back."""
        was_set = self._first.keys() & REMAKING
        if any(wanted[name] != before[name] for name in wanted):
            return True
        return bool(was_set) and not self._first.keys() <= settings.keys()

    def _put_back(self) -> None:
        """Have everything be as it was first."""
        order = sorted(self._first, key=lambda name: name not in REMAKING)
        try:
            self._change({}, {}, back={name: self._first[name] for name in order})
        except Unable as error:
            # What was there is possible: that it does not come back is an error.
            raise SkblabError(str(error)) from error
        self._first.clear()

    def _wanted(self, settings: Mapping[str, Value], before: Mapping[str, str]) -> dict[str, str]:
        return {
            name: wanted(name, self._machine, value, before[name], self._knobs)
            for name, value in settings.items()
        }

    def _note(self, name: str, known: str) -> None:
        """Have on disk how to undo a knob, if it was not set yet.

        Where that is a command of the user's own, it has to work with what there is: what cannot be
        put back would be in the way of all that comes later.
        """
        if name not in self._first:
            script = undoing(name, self._machine, known, self._knobs)
            if isinstance(self._knobs[name], Reversible):
                self._seen = {}
                _require_done(
                    _do(self._transport, [(name, script)]), "not set, as it could not be put back"
                )
            self._undo.add(name, script)
            self._first[name] = known

    def _change(
        self,
        changes: Mapping[str, str],
        before: Mapping[str, str],
        back: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Put `back` what was set before, and make each of the others have its state.

        How to undo that is on disk first.
        """
        scripts = [
            (name, undoing(name, self._machine, known, self._knobs)) for name, known in back.items()
        ]
        for name, known in changes.items():
            if name not in self._first:
                self._note(name, before[name])
            scripts.append((name, restoring(name, self._machine, known, self._knobs)))
        if scripts:
            self._seen = {}
        _require_done(_do(self._transport, scripts), "not set")

    def forget(self) -> None:
        """Take nothing that was read for what there is now: something went wrong since."""
        self._seen = {}

    def look(self, found: Sequence[Applied]) -> list[Applied]:
        """Return the readings with what there is now, after a trial.

        It is what there was before the next settings, too.
        """
        self._seen = self._printed([reading.knob for reading in found])
        after = {
            name: state(name, self._machine, text, self._knobs) for name, text in self._seen.items()
        }
        return [replace(reading, after=after[reading.knob]) for reading in found]

    def _fitting(self, settings: Mapping[str, Value]) -> dict[str, str]:
        found = {}
        unseen = self._printed([name for name in settings if name not in self._seen])
        for name, printed in ((name, (self._seen | unseen)[name]) for name in settings):
            try:
                fitting(name, printed, settings[name], self._knobs)
                found[name] = state(name, self._machine, printed, self._knobs)
            except Unable as reason:
                raise Unable(f"{name}: {reason}") from reason
        return found

    def _states(self, names: Collection[str]) -> dict[str, str]:
        return {
            name: state(name, self._machine, text, self._knobs)
            for name, text in self._printed(names).items()
        }

    def _printed(self, names: Collection[str]) -> dict[str, str]:
        """Return what each knob prints: all by one script, for each call takes its time.

        So does entering a namespace, which is done once for all that look into it alone.
        """
        machine, entered = self._machine, self._machine.entered
        if not names:
            return {}
        knobs = self._knobs
        calls = {name: knobs[name].get(machine) for name in names}
        within = {name: call for name in calls if (call := knobs[name].get(entered)) != calls[name]}
        inside = script_inside(machine.netns, _marked(within))
        if not within or len(inside) > LONGEST:
            text = _marked(calls)
        else:
            others = {name: call for name, call in calls.items() if name not in within}
            text = f"{_marked(others)}\n{inside}"
        done = self._transport.script(text).check("reading settings")
        _, *parts = done.stdout.split(f"{_MARK} ")
        return {name: printed for name, _, printed in (part.partition("\n") for part in parts)}


def _require_done(failed: Sequence[_Failed], what: str) -> None:
    """Raise SkblabError for what failed; Unable if it is that a driver has nothing for it."""
    if failed:
        said = f"{what}: {'; '.join(one.why for one in failed)}"
        # Some drivers show a setting and have nothing to set it with (EOPNOTSUPP).
        impossible = all(one.why.endswith(NOT_SUPPORTED) for one in failed)
        raise Unable(said) if impossible else SkblabError(said)


def _differing(wanted: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    return {name: known for name, known in wanted.items() if known != before[name]}


def _marked(calls: Mapping[str, str]) -> str:
    """Return a script of several, each with its name before what it prints."""
    return "\n".join(f"echo {_MARK} {name}\n{call}" for name, call in calls.items())


@contextlib.contextmanager
def applying(
    transport: Transport, machine: Machine, file: Path, knobs: Mapping[str, Knob] | None = None
) -> Iterator[Applier]:
    """Give what sets knobs, and put all back at the end; NotPutBackError if something cannot be.

    What went wrong before that goes first. Where nothing arrives any more nothing can be put back:
    the scripts stay.
    """
    undo = Undo(file)
    if undo.scripts():
        raise SkblabError(f"{file} has settings of a run that was killed; put them back first")
    # What a kill cut would be the beginning of the first line.
    undo.file.unlink(missing_ok=True)
    try:
        yield Applier(transport, machine, undo, knobs)
    except TransportError:
        raise
    except BaseException as error:
        if wrong := undo.replay(transport):
            error.add_note(_left(wrong, file))
        raise
    if wrong := undo.replay(transport):
        raise NotPutBackError(_left(wrong, file))


def _left(wrong: Sequence[str], file: Path) -> str:
    return f"not put back: {'; '.join(wrong)}; the scripts are in {file}"
