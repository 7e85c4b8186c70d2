# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of latency trials: none is without an account, on a busy machine either.

There a generator is stopped before it has sent all, and a router that gets no processor loses some.
Both are recorded; a warning in pytest's summary says how many.
"""

from __future__ import annotations

import warnings

from skblab_analysis.base.errors import SkblabWarning
from skblab_analysis.latency.summary import Delay

# Of the packets that were asked for, what a sweep that is worth anything delivers.
LEAST = 0.9


def delivered(delay: Delay, packets: int) -> None:
    """Fail if packets are neither timed nor told as lost or not sent, or if few are timed."""
    timed = delay.latency.count
    assert timed + delay.lost == delay.tried <= packets, delay.setting
    assert timed >= LEAST * packets, delay.setting
    if timed < packets:
        told = f"{delay.setting}: {timed} of {packets} packets timed, {delay.lost} lost"
        warnings.warn(told, SkblabWarning, stacklevel=2)
