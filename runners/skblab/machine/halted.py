# SPDX-License-Identifier: GPL-2.0-or-later
"""A CPU of a guest that takes no interrupt any more, as the host sees it.

With a thread for each emulated CPU, QEMU (10.0) leaves an interrupt in service now and then, and
nobody handles it: the CPU halts, and its timer and all that devices send to it wait for ever. In
the memory of such a guest CPU 0 was in default_idle(), its local APIC had the timer's vector in
both ISR and IRR, and the ticks of CPU 1 went on. So far it was seen beside load only, and seldom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

FIRST = "CPU 0/TCG"
# The first CPU has most of a boot's work. It does nothing for so long only if it is halted, while a
# tick of another costs QEMU a tenth of a millisecond.
SECONDS = 30.0
OTHERS_SECONDS = 0.1
EACH_SECONDS = 1.0
SAID = "CPU 0 of the guest takes no interrupt any more, and QEMU is to blame"


def processor_times(parent: int) -> Mapping[str, float]:
    """Return the processor time of each thread of QEMU's below a process, in seconds, by name.

    They are named by GuestSpec.qemu. Raises psutil.Error or OSError when it ends meanwhile.
    """
    found = {}
    for process in psutil.Process(parent).children(recursive=True):
        if process.name().startswith("qemu-system"):
            for thread in process.threads():
                name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text().strip()
                found[name] = thread.user_time + thread.system_time
    return found


class FirstCpu:
    """The first CPU of a guest that boots."""

    def __init__(
        self, times: Callable[[], Mapping[str, float]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._times, self._clock = times, clock
        self._next = clock()
        self._since, self._then = clock(), dict[str, float]()
        self.halted = False

    def look(self) -> str | None:
        """Return what is wrong with it, or None while it is well or cannot be seen."""
        now = self._clock()
        if not self.halted and now >= self._next:
            self._next = now + EACH_SECONDS
            try:
                times = self._times()
            except (psutil.Error, OSError):
                # It has ended, which others see.
                return None
            then = self._then
            if FIRST not in times or times[FIRST] != then.get(FIRST):
                self._since, self._then = now, dict(times)
            elif now - self._since >= SECONDS:
                others = sum(
                    used - then.get(name, used)
                    for name, used in times.items()
                    if name.startswith("CPU ") and name != FIRST
                )
                self.halted = others >= OTHERS_SECONDS
        return SAID if self.halted else None
