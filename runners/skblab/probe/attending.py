# SPDX-License-Identifier: GPL-2.0-or-later
"""A probe at work is attended until its load is over, its time is up, or the user asks for it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

from skblab.lab.reporter import Reporter
from skblab.probe.backends import Probing
from skblab.probe.loads import Sent, Traffic
from skblab.probe.targets import Target
from skblab_analysis.base.words import number

LOOK_SECONDS = 0.1


class _Enough(Exception):
    """There is nothing more to wait for."""


def saying(what: str, target: Target, sending: Traffic | None, seconds: float | None) -> str:
    """Return what is done, where, and for how long."""
    limit = "until Ctrl-C" if seconds is None else f"for {seconds:g} s"
    where = f"{target.name}, kernel {target.release}"
    return f"{what} on {where}, {limit if sending is None else sending}"


def attend(
    probing: Probing,
    target: Target,
    sending: Traffic | None,
    reporter: Reporter,
    asked: Callable[[], bool],
    seconds: float | None = None,
) -> tuple[str, Sent | None]:
    """Return the probe's last document, and what was sent, if all of it was.

    `seconds`: for a probe that does not end by itself.
    """
    deadline = time.monotonic() + (math.inf if seconds is None else seconds)

    def look() -> None:
        if time.monotonic() >= deadline or not probing.look() or asked():
            raise _Enough

    sent = None
    with contextlib.suppress(_Enough):
        if sending is not None:
            sent = sending.run(target.transport, look)
            reporter.say(f"sent {number(sent.sent)}, received {number(sent.received)}")
        while sending is None:
            look()
            time.sleep(LOOK_SECONDS)
    return probing.end(), sent
