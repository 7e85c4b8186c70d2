# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of latency trials: none is without an account, on a busy machine either.

There a generator is stopped before it has sent all, and a router that gets no processor loses some.
Both are recorded; a warning in pytest's summary says how many. What the router does is tested here:
how many packets an emulated generator sends in a second is the machine's affair.
"""

from __future__ import annotations

import warnings

from skblab_analysis.base.errors import SkblabWarning
from skblab_analysis.latency.summary import Delay

# Of the packets that were sent, what a sweep that is worth anything delivers.
LEAST = 0.9
# Of the packets that were asked for, what must be sent for this to be a test of delivery at all.
SENT = 0.5


def delivered(delay: Delay, packets: int) -> None:
    """Fail if sent packets are neither timed nor told as lost, or if few are sent or timed."""
    timed = delay.latency.count
    sent = f"{delay.setting}: {delay.tried} of {packets} packets sent"
    told = f"{sent}, {timed} timed, {delay.lost} lost"
    assert timed + delay.lost == delay.tried <= packets, told
    assert delay.tried >= SENT * packets, told
    assert timed >= LEAST * delay.tried, told
    if timed < packets:
        warnings.warn(told, SkblabWarning, stacklevel=2)
