# SPDX-License-Identifier: GPL-2.0-or-later
"""What a knob is. It does nothing itself: it gives the scripts that do, and reads what they print.

So a plan can show each command before anything is done, and what a killed run left can be put back
from its journal by a program that knows nothing of knobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Protocol, runtime_checkable

from skblab.knobs.values import Value
from skblab.machine.device import Machine, script_inside
from skblab_analysis.base.errors import SkblabError

# How a script says that the hardware, the driver or the kernel has no such thing: on a line of its
# own, and why (see `able`). The value is then skipped and reported.
UNABLE = "skblab-unable:"


# In what sets a value by hand: each network device in turn.
DEVICE = "DEVICE"


@dataclass(frozen=True)
class Form:
    """One form that values of a knob have: a value that has it, and which others do, in words."""

    example: Value
    words: str = ""


class Check(Protocol):
    """Which values a knob takes; `str` says it in words."""

    def __call__(self, value: Value) -> Value:
        """Return the value as it is used; ValueError says what is expected."""

    @property
    def forms(self) -> Sequence[Form]:
        """Every form that values have."""


class Unable(SkblabError):
    """This machine cannot do that: no failure, but no result either."""


def able(printed: str) -> str:
    """Return what a script printed; Unable with its words if it says that it cannot."""
    _, said, why = printed.partition(UNABLE)
    if said:
        raise Unable(why.splitlines()[0].strip())
    return printed


def joined(values: Iterable[tuple[str, object]]) -> str:
    """Return the state that is `name=value` words."""
    return " ".join(f"{name}={value}" for name, value in values)


def parted(state: str) -> dict[str, str]:
    """Return the value of each name in a state of `name=value` words."""
    return {name: value for name, _, value in (word.partition("=") for word in state.split())}


class Knob(Protocol):
    """A setting.

    A state is what was found, in words that `restore` understands.
    """

    @property
    def name(self) -> str:
        """As experiment files have it."""

    @property
    def sentence(self) -> str:
        """What it does."""

    @property
    def needs(self) -> str:
        """What a machine has to have for it, in words; empty: nothing beside root."""

    @property
    def boot(self) -> bool:
        """Only a boot sets it."""

    @property
    def check(self) -> Check:
        """Which values it takes."""

    def get(self, machine: Machine) -> str:
        """Return a script that prints the state."""

    def state(self, printed: str) -> str:
        """Return the state that was printed; Unable says why there is none."""

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable if what `get` printed says that the hardware cannot have that value."""

    def likely(self, machine: Machine) -> str:
        """Return as much of a state as `wanted` needs, of a machine that cannot be asked."""

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the state that a value is, where the state was `before`."""

    def restore(self, machine: Machine, state: str) -> str:
        """Return a script that makes it so: a state that was wanted, or one that was before."""

    def by_hand(self, value: Value) -> str:
        """Return what sets a value by hand, in terms of sysctl, nft, ip or ethtool.

        Names in capitals stand for what a machine has: each DEVICE, QUEUE, IRQ or NAPI instance.
        """


def calling(netns: str | None, file: str, call: str, names: str = "") -> str:
    """Return a script that makes a call of a file of this package in a namespace.

    The file defines functions; `names` are lines with the variables that these read.
    """
    functions = (resources.files(__package__) / file).read_text()
    return script_inside(netns, f"set -u\n{names}{functions}{call}")


@runtime_checkable
class Reversible(Protocol):
    """A knob that is put back in another way than it is set."""

    def put_back(self, machine: Machine, state: str) -> str:
        """Return a script that makes it as it was before it was set."""


class Independent(ABC):
    """What most knobs have: any value can be tried, and none depends on what was before."""

    @abstractmethod
    def state(self, printed: str) -> str:
        """See Knob."""

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable where there is no state."""
        self.state(printed)

    def likely(self, machine: Machine) -> str:
        """Return nothing: what is wanted does not depend on what was."""
        return ""


@dataclass(frozen=True)
class Family:
    """The knobs of a module, which has it as FAMILY: `registry` finds it there.

    `place` is its place among families. `remaking` are names of knobs that make anew what others
    set: they are set first, and put back first. `alike` are names of knobs that set the same thing,
    each in its way.
    """

    place: int
    knobs: Sequence[Knob]
    remaking: frozenset[str] = frozenset()
    alike: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """Values that are the given ones, and nothing else."""

    values: Sequence[Value]

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is none of them. 1 is not true here."""
        if any(type(allowed) is type(value) and allowed == value for allowed in self.values):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """Each value is one."""
        return [Form(value) for value in self.values]

    def __str__(self) -> str:
        """Return them in words."""
        return " or ".join(map(shown, self.values))


@dataclass(frozen=True)
class Between:
    """Whole numbers from `low` to `high`; `usual` is one that somebody may want."""

    low: int
    high: int
    usual: int | None = None

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is no such number."""
        if type(value) is int and self.low <= value <= self.high:
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """There is one."""
        return [Form(self.high if self.usual is None else self.usual, str(self))]

    def __str__(self) -> str:
        """Return them in words."""
        return f"a whole number from {self.low} to {self.high}"


ON_OFF = Choice((False, True))


def shown(value: Value) -> str:
    """Return a value as messages quote it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)
