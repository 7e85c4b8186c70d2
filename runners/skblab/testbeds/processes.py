# SPDX-License-Identifier: GPL-2.0-or-later
"""Who had the one CPU while packets were sent: what others had of it is no cost of packets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skblab_analysis.base.errors import understood
from skblab_analysis.base.whole import whole

# Those that packets are sent and processed in: pktgen, softirqs, NAPI and, with PREEMPT_RT, the
# threads of interrupts, timers and RCU's callbacks.
OF_PACKETS = re.compile(r"kpktgend_\d+|(ksoftirqd|ktimers|rcuc|napi|irq)/.*")
_LINE = re.compile(r"/proc/(\d+)/(comm|schedstat):(.*)")
MOST_NAMED = 3


@dataclass(frozen=True)
class Ran:
    """Nanoseconds on a CPU of each process, by its number and its name."""

    nanoseconds: Mapping[tuple[int, str], int]

    @classmethod
    def parse(cls, printed: str) -> Ran:
        """Return what `processes` of netns.sh printed; SkblabError if it is something else."""
        names: dict[int, str] = {}
        ran: dict[int, int] = {}
        with understood("what the guest's processes have run", printed):
            for line in filter(None, printed.split("\n")):
                if (found := _LINE.fullmatch(line)) is None:
                    raise ValueError(f"{line!r}: expected /proc/PID/comm or schedstat")
                number, file, value = int(found[1]), found[2], found[3]
                if file == "comm":
                    names[number] = value
                else:
                    # proc_pid_schedstat(): time on a CPU, time of waiting for one, time slices.
                    ran[number] = whole(value.split()[0])
        return cls({(number, name): ran[number] for number, name in names.items() if number in ran})

    def since(self, before: Ran) -> dict[str, int]:
        """Return nanoseconds of each name since `before`, the greatest first."""
        grown: dict[str, int] = {}
        for process, now in self.nanoseconds.items():
            name = process[1]
            grown[name] = grown.get(name, 0) + now - before.nanoseconds.get(process, 0)
        return dict(sorted(grown.items(), key=lambda entry: -entry[1]))


@dataclass(frozen=True)
class Others:
    """What others than packets had of the CPU: `microseconds`, and in words who ran most."""

    microseconds: int = 0
    who: str = ""

    @classmethod
    def between(cls, before: str, after: str, took: int) -> Others:
        """Return what of `took` microseconds no thread had that packets are processed in.

        `before` and `after` are what `processes` of netns.sh printed. A kernel without scheduler
        statistics tells nothing.
        """
        grown = Ran.parse(after).since(Ran.parse(before))
        packets = sum(value for name, value in grown.items() if OF_PACKETS.fullmatch(name))
        most = [
            f"{name} {value / 1e6:.1f} ms"
            for name, value in grown.items()
            if not OF_PACKETS.fullmatch(name)
        ]
        others = max(0, took - packets // 1000) if packets else 0
        return cls(others, ", ".join(most[:MOST_NAMED]))
