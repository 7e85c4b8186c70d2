# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs that count while packets are sent: what base.py asks of each, a module for each.

A collector begins right before a trial's packets and ends right behind them. It says what it needs
on the machine, and what it cannot count there and why: a gap, never a zero.
"""

from skblab.machine.collectors.base import Collector, Tool, collecting
from skblab.machine.collectors.pcm import TOOLS as PCM_TOOLS
from skblab.machine.collectors.pcm import Pcm
from skblab.machine.collectors.perf import GROUPS, Perf
from skblab.machine.collectors.samples import Sampler, chosen

__all__ = [
    "GROUPS",
    "PCM_TOOLS",
    "Collector",
    "Pcm",
    "Perf",
    "Sampler",
    "Tool",
    "chosen",
    "collecting",
]
