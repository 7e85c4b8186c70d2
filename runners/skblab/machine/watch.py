# SPDX-License-Identifier: GPL-2.0-or-later
"""Watching kernels while something is measured: what they complained of from look to look.

Nothing that was measured while a kernel complained is worth anything: who records a trial looks
when it begins and when it ends, and what is found in between makes it invalid.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Protocol

from skblab.lab.guest.console import Finding, classify
from skblab.lab.guest.errors import GuestError
from skblab.machine.transport import Transport
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.heard import Heard, reason

# Whatever classify knows is of these.
LEVELS = "emerg,alert,crit,err,warn"


class Source(Protocol):
    """Where a kernel says it: a guest's console, a host's log."""

    @property
    def findings(self) -> list[Finding]:
        """All that was found until the last `poll`, in its order."""

    def poll(self) -> None:
        """Look for more."""


class HostLog:
    """The kernel log of a machine that is not ours, from now on. Of the past nothing is said."""

    def __init__(self, transport: Transport) -> None:
        self.findings: list[Finding] = []
        self._transport = transport
        self._last = ""
        lines = self._lines()
        self.readable = lines is not None
        if lines:
            self._last = lines[-1]

    def end(self) -> None:
        """Look for the last time: the machine is not ours any more."""
        # One that has gone tells nothing more.
        with contextlib.suppress(SkblabError):
            self.poll()
        self.readable = False

    def poll(self) -> None:
        """Look for more, if the log can be read."""
        lines = self._lines() if self.readable else None
        if not lines:
            return
        # Where the last line that was seen has gone meanwhile, all of them are new.
        new = 0
        for number, line in enumerate(lines, 1):
            if line == self._last:
                new = number
        self._last = lines[-1]
        self.findings += [found for line in lines[new:] if (found := classify(line))]

    def _lines(self) -> list[str] | None:
        # By a shell, which says so where there is no dmesg.
        done = self._transport.run(["sh", "-c", f"dmesg --color=never --level={LEVELS}"])
        return done.stdout.splitlines() if done.status == 0 else None


@dataclass
class Watch:
    """Kernels that are watched, by what each machine is: `guest`, `router`, `tester`."""

    sources: dict[str, Source] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict, init=False)

    def look(self) -> list[Heard]:
        """Return what kernels complained of since the last look, or since they began."""
        found = []
        for name, source in self.sources.items():
            source.poll()
            new = source.findings[self._seen.get(name, 0) :]
            self._seen[name] = len(source.findings)
            found += [Heard(name, finding.kind.value, finding.text) for finding in new]
        return found

    def end(self) -> None:
        """Look at hosts for the last time; a further `look` tells what was found."""
        for source in self.sources.values():
            if isinstance(source, HostLog):
                source.end()

    def refuse(self, what: str) -> None:
        """Raise RefusedError, which begins with `what`, if there is anything to be found."""
        if found := self.look():
            raise RefusedError(f"{what}: {reason(found)}")


def heard_of(death: GuestError, machine: str = "guest") -> list[Heard]:
    """Return what the kernel of a guest that is lost complained of."""
    return [Heard(machine, finding.kind.value, finding.text) for finding in death.findings]
