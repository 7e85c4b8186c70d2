# SPDX-License-Identifier: GPL-2.0-or-later
"""Intel's Performance Counter Monitor: caches, memory and links between sockets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from skblab.machine.collectors.base import Tool
from skblab.machine.transport import Transport
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.events.rows import Event
from skblab_analysis.formats import pcm

# Those that count for as long as a command runs. `pcm-pcie` counts after it has ended.
Name = Literal["pcm", "pcm-memory", "pcm-numa"]
TOOLS: tuple[Name, ...] = get_args(Name)
INSTALL = "pcm on Debian and Ubuntu"


@dataclass(frozen=True)
class Pcm:
    """The Collector: one of the tools. Two of them, or perf with one, would want one counter."""

    tool_name: Name

    @property
    def name(self) -> str:
        """What its events are listed by."""
        return self.tool_name

    @property
    def tool(self) -> Tool:
        """What it needs on the machine."""
        return Tool(self.tool_name, INSTALL)

    def able(self, transport: Transport) -> tuple[Pcm | None, tuple[Event, ...]]:
        """Return it if it counts on the machine; else why it does not: another has the counters."""
        done = transport.run([*self.argv(["true"])])
        why = ""
        if done.status:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            why = one_line(said[-1], 120) if said else f"it ended with {done.status}"
        else:
            try:
                self.read(done.stdout)
            except SkblabError as error:
                why = one_line(str(error), 200)
        gaps = (Event(collector=self.name, name=self.name, why=why),) if why else ()
        return (None if why else self), gaps

    def asks(self) -> Iterator[str]:
        """Yield what is run before the first trial of a boot, to know whether it counts."""
        yield shlex.join(self.argv(["true"]))

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the command line that counts while a command runs."""
        return [self.tool_name, "-csv", "--", *command]

    def read(self, printed: str) -> tuple[Event, ...]:
        """Return what the tool says of the whole time: it prints one sample, at the end."""
        samples = pcm.parse(self.tool_name, printed)
        if len(samples) != 1:
            raise SkblabError(f"{self.name} printed {len(samples)} samples, expected one")
        return tuple(
            Event(
                collector=self.name,
                scope=value.scope,
                number=value.number,
                socket=value.socket,
                name=value.name,
                unit=value.unit,
                value=value.value,
                why=value.why,
            )
            for value in samples[0].values
        )
