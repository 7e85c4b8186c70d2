# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are commands of the user's own, which `[commands.NAME]` of an experiment file has.

`{value}` and `{port}` in a command are one word of the shell each: a variable in quotes, so that no
shell ever reads a value, which may be anything that a machine prints, as text of the command. They
stand outside of all quotes, for these may be around a command of another shell. All else is the
user's, and a shell's on the device under test, in its namespace.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skblab.knobs import perport, shellquote
from skblab.knobs.base import DEVICE, Check, Form, Independent, able, calling, shown
from skblab.knobs.keys import PORT
from skblab.knobs.values import Value
from skblab.machine.device import Machine
from skblab_analysis.base.errors import SkblabError, one_line

VALUE = "{value}"
LONGEST, LONGEST_COMMAND = 200, 4000
_LINE = re.compile(r"(\S+) (said|failed) ?(.*)")
# A shell's own variable, where ours was meant.
_OTHERS = re.compile(r"\$\{(?:value|port)\}")
_PLACE = re.compile(r"\{(?:value|port)\}")
# Where a command finds them; commands.sh sets these.
_VARIABLES = {VALUE: '"$skblab_value"', PORT: '"$skblab_port"'}


class Words:
    """Values that commands can be given: whole numbers, and texts of one line."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if `get` cannot print it."""
        if type(value) is int and abs(value) < 1 << 64:
            return value
        if (
            isinstance(value, str)
            and 0 < len(value) <= LONGEST
            and value.isprintable()
            and value == value.strip()
            and value != perport.EMPTY
        ):
            return value
        raise ValueError(f"{shown(value)[: LONGEST + 2]}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """One of each."""
        return [Form(1), Form("fast")]

    def __str__(self) -> str:
        """Return them in words."""
        return (
            "what the commands take: a whole number, or a text of one line of at most "
            f"{LONGEST} characters"
        )


def fault(which: str, template: str) -> str:
    """Return what is wrong with a command, in words; empty if nothing is."""
    if not template.strip():
        return "is empty: write the command"
    if len(template) > LONGEST_COMMAND:
        return f"has {len(template)} characters, expected at most {LONGEST_COMMAND}"
    if "\0" in template:
        return "has a NUL character, which no shell takes"
    if found := _OTHERS.search(template):
        return f"has {found[0]}, a variable of the shell: write {found[0][1:]}, without the $"
    if which == "set" and VALUE not in template:
        return f"has no {VALUE}: write it where the value goes"
    if which == "get" and VALUE in template:
        return f"has {VALUE}, and is to find it out: leave it away"
    plain = set(shellquote.plain(template))
    for place in _PLACE.finditer(template):
        if not plain.issuperset(range(*place.span())):
            return (
                f"has {place[0]} within quotes or the like, where a shell may run what it stands "
                "for: write it outside of them, and hand it to another shell as a word, such as "
                f"sh -c 'echo \"$1\"' sh {place[0]}"
            )
    return ""


@dataclass(frozen=True)
class Commands(Independent):
    """Commands that set a value, print it, and put back what was printed before it was set."""

    name: str
    setting: str
    getting: str
    restoring: str
    sentence: str = "A value that commands of the experiment file set."
    check: Check = field(default_factory=Words)
    needs: str = ""
    boot: bool = False

    @property
    def _each(self) -> bool:
        return any(PORT in one for one in (self.setting, self.getting, self.restoring))

    def get(self, machine: Machine) -> str:
        """Print what `get` prints, for each port if a command names it."""
        ports = perport.ports(machine, each=self._each)
        return _script(
            machine, (f"ask {shlex.quote(port)} {_call(self.getting)}" for port in ports)
        )

    def state(self, printed: str) -> str:
        """Return the values; SkblabError for a command that failed, or printed no single line."""
        found: dict[str, list[str]] = {}
        for line in able(printed).splitlines():
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"{line[:80]!r}: expected a line of a command's")
            port, what, text = match.groups()
            if what == "failed":
                raise SkblabError(f"{self.name}: get{_of(port)} failed, {one_line(text)}")
            if text.strip():
                found.setdefault(port, []).append(text.strip())
            else:
                found.setdefault(port, [])
        for port, lines in found.items():
            if len(lines) != 1:
                raise SkblabError(
                    f"{self.name}: get{_of(port)} printed {len(lines) or 'no'} "
                    f"line{'s' if len(lines) != 1 else ''}, expected one with the value"
                )
        if not found:
            raise ValueError("it has no value")
        return perport.written({port: lines[0] for port, lines in found.items()})

    def likely(self, machine: Machine) -> str:
        """Return a state without values."""
        return perport.likely(machine, each=self._each)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value, of each port."""
        return perport.written(dict.fromkeys(perport.ports(machine, each=self._each), str(value)))

    def restore(self, machine: Machine, state: str) -> str:
        """Run `set`."""
        return self._run(machine, "set", self.setting, state)

    def put_back(self, machine: Machine, state: str) -> str:
        """Run `restore`."""
        return self._run(machine, "restore", self.restoring, state)

    def by_hand(self, value: Value) -> str:
        """Return the user's command."""
        return _filled(self.setting, {VALUE: shlex.quote(str(value)), PORT: DEVICE})

    def _run(self, machine: Machine, which: str, template: str, state: str) -> str:
        texts = perport.read(machine, state, each=self._each)
        return _script(
            machine,
            (
                f"run {shlex.quote(which + _of(port))} {_call(template)} {shlex.quote(port)} "
                f"{shlex.quote(texts[port])}"
                for port in perport.ports(machine, each=self._each)
            ),
        )


def _of(port: str) -> str:
    return "" if port == perport.WHOLE else f" for {port}"


def _filled(template: str, words: Mapping[str, str]) -> str:
    """Return a command with its words; a value may look like the other placeholder."""
    return _PLACE.sub(lambda found: words[found[0]], template)


def _call(template: str) -> str:
    return shlex.quote(_filled(template, _VARIABLES))


def _script(machine: Machine, calls: Iterable[str]) -> str:
    return calling(machine.netns, "commands.sh", "\n".join(calls))
