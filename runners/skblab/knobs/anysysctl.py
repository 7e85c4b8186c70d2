# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that is any sysctl: `sysctl."net.ipv4.tcp_sack" = 0` in an experiment file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from skblab.knobs import keys, oneway, perport
from skblab.knobs.base import DEVICE, Check, Form, Independent, able, calling, shown
from skblab.knobs.values import Value
from skblab.machine.device import Machine

LONGEST = 200


@dataclass(frozen=True)
class Texts:
    """Values that are a whole number, a truth value (1 or 0) or a text; `path` is what has them."""

    path: str

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if a line of /proc/sys cannot be like it."""
        if why := oneway.why_not(self.path, _text(value)):
            raise ValueError(f"{shown(value)[: LONGEST + 2]}: {self.path} {why}")
        if isinstance(value, (bool, int)) and abs(value) < 1 << 64:
            return value
        if (
            isinstance(value, str)
            and len(value) <= LONGEST
            and value.isprintable()
            and value != perport.EMPTY
        ):
            return value
        raise ValueError(f"{shown(value)[: LONGEST + 2]}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """One of each."""
        return [Form(1), Form(True), Form("4096 131072 6291456", "such as sysctl prints it")]

    def __str__(self) -> str:
        """Return them in words."""
        return (
            "a whole number, true or false (1 or 0), or a text of one line, such as "
            f'"4096 131072 6291456", of at most {LONGEST} characters'
        )


@dataclass(frozen=True)
class AnySysctl(Independent):
    """A sysctl by its name; it is set where it is, in the router's namespace or of the machine."""

    name: str
    sentence: str = "A sysctl."
    needs: str = ""
    boot: bool = False

    @property
    def check(self) -> Check:
        """Which values it takes."""
        return Texts(keys.path(self.name))

    @property
    def _each(self) -> bool:
        return keys.PORT in self.name

    def get(self, machine: Machine) -> str:
        """Print `PORT=VALUE` for each port, or for none."""
        calls = [f"show {shlex.quote(port)} {file}" for port, file in self._files(machine).items()]
        return self._script(machine, calls)

    def state(self, printed: str) -> str:
        """Return the values, with one space where there are several or a tab."""
        found = {}
        for line in able(printed).splitlines():
            port, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"{line[:80]!r}: expected PORT=VALUE")
            found[port] = " ".join(value.split())
        if not found:
            raise ValueError("it has no value")
        return perport.written(found)

    def likely(self, machine: Machine) -> str:
        """Return a state without values."""
        return perport.likely(machine, each=self._each)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value of each."""
        plain = " ".join(_text(value).split())
        return perport.written(dict.fromkeys(perport.ports(machine, each=self._each), plain))

    def restore(self, machine: Machine, state: str) -> str:
        """Write each value."""
        files, texts = self._files(machine), perport.read(machine, state, each=self._each)
        calls = [f"put {file} {shlex.quote(texts[port])}" for port, file in files.items()]
        return self._script(machine, calls)

    def by_hand(self, value: Value) -> str:
        """Return a call of sysctl."""
        key = keys.key(self.name).replace(keys.PORT, DEVICE)
        return f"sysctl -w {shlex.quote(f'{key}={_text(value)}')}"

    def _files(self, machine: Machine) -> dict[str, str]:
        path = f"/proc/sys/{keys.path(self.name)}"
        return {
            port: shlex.quote(path.replace(keys.PORT, port))
            for port in perport.ports(machine, each=self._each)
        }

    def _script(self, machine: Machine, calls: Sequence[str]) -> str:
        return calling(machine.netns, "anysysctl.sh", "\n".join(calls))


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, (bool, int)) else str(value)


def named(name: str) -> AnySysctl | None:
    """Return the knob of a name, if it is that of a sysctl."""
    return AnySysctl(name) if keys.is_sysctl(name) else None
