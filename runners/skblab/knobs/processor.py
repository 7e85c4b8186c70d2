# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of the processors themselves, in /sys/devices/system/cpu: frequency governor, SMT.

A state is `path=word` words; a path is relative to that folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from skblab.knobs.base import ON_OFF, UNABLE, Check, Choice, Family, Unable, able, joined, parted
from skblab.knobs.values import Value
from skblab.machine.device import Machine

FOLDER = "/sys/devices/system/cpu"


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
            f"for file in {self.files}; do "
            '[ -e "$file" ] || continue; found=1; echo "$file=$(cat "$file")"; done; '
            f"[ \"$found\" ] || echo '{UNABLE} {self.absent}')"
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
        found = parted(state).items()
        return "\n".join(
            f"echo {shlex.quote(word)} >{shlex.quote(f'{FOLDER}/{path}')}" for path, word in found
        )

    def by_hand(self, value: Value) -> str:
        """Return what writes the word."""
        write = "| tee " if "*" in self.files else ">"
        return f"echo {self.words[value]} {write}{FOLDER}/{self.files}"


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
FAMILY = Family(110, _PROCESSORS)
