# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of the processors, in /sys/devices/system/cpu: frequency governor, SMT, idle states.

A state is `path=word` words; a path is relative to that folder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from skblab.knobs.base import (
    ON_OFF,
    UNABLE,
    Between,
    Check,
    Choice,
    Family,
    Independent,
    Unable,
    able,
    joined,
    parted,
)
from skblab.knobs.values import Value
from skblab.machine.device import Machine

FOLDER = "/sys/devices/system/cpu"
# Whether a CPU may not enter one of its idle states.
_IDLE = "cpu{}/cpuidle/state{}/disable"
_DISABLED = re.compile(r"cpu\d{1,4}/cpuidle/state\d{1,2}/disable=[01]")


@dataclass(frozen=True)
class Processor:
    """A file, or one of each CPU: `files` with `*` for any CPU. `words` are what values are there.

    `offered` is a file with the words that can be written, if there is such a file.
    """

    name: str
    sentence: str
    files: str
    check: Check
    words: Mapping[Value, str]
    absent: str
    offered: str = ""
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print `offered` with what can be written, and `path=word` for each file."""
        offered = f'echo "offered $(cat {FOLDER}/{self.offered} 2>/dev/null)"'
        return (
            f"(cd {FOLDER}; found=; {offered if self.offered else 'echo offered'}; "
            f"{_reads(self.files, self.absent)})"
        )

    def state(self, printed: str) -> str:
        """Return `path=word` words; Unable for a word that is no state that can be left."""
        _, *lines = able(printed).splitlines()
        for line in lines:
            if "=" not in line:
                raise ValueError(f"{line!r}: expected such as {self.files}=on")
            if line.partition("=")[2] not in self.words.values():
                raise Unable(f"{line.replace('=', ' is ')}")
        return " ".join(sorted(lines))

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable if the driver does not offer it."""
        self.state(printed)
        offered = printed.partition("\n")[0].split()[1:]
        if offered and self.words[value] not in offered:
            raise Unable(f"there is no {self.words[value]}; there are {', '.join(offered)}")

    def likely(self, machine: Machine) -> str:
        """Return the files of the first CPU."""
        return f"{self.files.replace('*', '0')}="

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the word for each file that there is."""
        return joined((path, self.words[value]) for path in parted(before))

    def restore(self, machine: Machine, state: str) -> str:
        """Write each file."""
        return _writes(state)

    def by_hand(self, value: Value) -> str:
        """Return what writes the word."""
        write = "| tee " if "*" in self.files else ">"
        return f"echo {self.words[value]} {write}{FOLDER}/{self.files}"


def _reads(files: str, absent: str) -> str:
    """Return what prints `path=word` for each file, or that there is none."""
    return (
        f"for file in {files}; do "
        '[ -e "$file" ] || continue; found=1; echo "$file=$(cat "$file")"; done; '
        f"[ \"$found\" ] || echo '{UNABLE} {absent}'"
    )


def _writes(state: str) -> str:
    """Return a script that writes each word of a state to its file."""
    return "\n".join(
        f"echo {shlex.quote(word)} >{shlex.quote(f'{FOLDER}/{path}')}"
        for path, word in parted(state).items()
    )


@dataclass(frozen=True)
class IdleStates(Independent):
    """The idle states of each CPU that the kernel may choose: so many, from the shallowest on."""

    name: str = "idle_states"
    sentence: str = (
        "Idle states (C-states) that a CPU may enter, from the shallowest on; 1: it polls, or "
        "enters the first one only."
    )
    check: Check = field(default_factory=lambda: Between(1, 16, 1))
    needs: str = "CPUs with idle states that Linux chooses"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print `path=1` for each state that is disabled, and `path=0` for each other one."""
        reads = _reads(_IDLE.format("*", "*"), "no CPU has idle states that Linux chooses")
        return f"(cd {FOLDER}; found=; {reads})"

    def state(self, printed: str) -> str:
        """Return `path=0` and `path=1` words."""
        words = able(printed).split()
        for word in words:
            if not _DISABLED.fullmatch(word):
                raise ValueError(f"{word!r}: expected such as {_IDLE.format(0, 1)}=0")
        return " ".join(sorted(words))

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable for more states than any CPU has."""
        have = 1 + max(_number(path) for path in parted(self.state(printed)))
        if int(str(value)) > have:
            raise Unable(f"a CPU has {have} idle states, not {value}")

    def likely(self, machine: Machine) -> str:
        """Return the second state of the first CPU."""
        return f"{_IDLE.format(0, 1)}="

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return which states are disabled."""
        return joined((path, int(_number(path) >= int(str(value)))) for path in parted(before))

    def restore(self, machine: Machine, state: str) -> str:
        """Write each file."""
        return _writes(state)

    def by_hand(self, value: Value) -> str:
        """Return what disables the deeper states."""
        file = f"{FOLDER}/{_IDLE.format('*', 'N')}"
        return f"echo 1 | tee {file}, for each N from {value} on; echo 0 for each other one"


def _number(path: str) -> int:
    """Return the number of an idle state by its path."""
    return int(path.rpartition("/state")[2].partition("/")[0])


_GOVERNORS = ("performance", "powersave", "schedutil", "ondemand", "conservative")
_PROCESSORS = (
    Processor(
        "governor",
        "What chooses the frequency of each CPU.",
        "cpu*/cpufreq/scaling_governor",
        Choice(_GOVERNORS),
        {governor: governor for governor in (*_GOVERNORS, "userspace")},
        "no CPU has a frequency that Linux chooses",
        "cpu0/cpufreq/scaling_available_governors",
        "CPUs whose frequency Linux chooses",
    ),
    Processor(
        "smt",
        "Two threads share a core. Off removes CPUs: name it before knobs that name CPUs.",
        "smt/control",
        ON_OFF,
        {True: "on", False: "off"},
        "this kernel has no control of SMT",
        needs="CPUs with SMT",
    ),
)
FAMILY = Family(110, (*_PROCESSORS, IdleStates()))
