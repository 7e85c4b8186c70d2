# SPDX-License-Identifier: GPL-2.0-or-later
"""A program of ours at work on a machine: started, its documents read as they come, ended."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from types import FrameType

from skblab.machine.transport import Running, Transport, TransportError
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

# For the hopeless only: a host may be an emulated one.
ATTACH_SECONDS = 300
END_SECONDS = 180
EXIT_USAGE = 2
# What a loader says, behind its name.
OWN_LINE = re.compile(r"(?:pathlat|pktsink|funclat): (.+)")


class Reading:
    """A probe that is attached. `lines` is called with each document's text.

    `heard`, if given, is called with each line that it says on standard error as itself.
    """

    def __init__(
        self,
        running: Running,
        lines: Callable[[str], None],
        name: str = "the probe",
        patience: int = 1,
        heard: Callable[[str], None] | None = None,
    ) -> None:
        self._running = running
        self._heard = heard
        self._lines = lines
        self._name = name
        self._patience = patience
        self._last = ""

    def look(self) -> bool:
        """Pass on what has come; False once the probe has ended by itself."""
        goes_on = self._running.running()
        for line in self._running.take_lines():
            self._last = line
            self._lines(line)
        if self._heard is not None:
            for said in self._running.take_errors().splitlines():
                # Not what libbpf says, nor that it is ready.
                if (own := OWN_LINE.match(said)) is not None:
                    self._heard(own[1])
        return goes_on

    def end(self) -> str:
        """Have the probe end, and return its last document."""
        # It may have ended in this moment.
        with contextlib.suppress(TransportError, ProcessLookupError):
            if self._running.running():
                self._running.interrupt()
        done = self._running.wait(self._patience * END_SECONDS)
        if done.status != 0:
            words = [line for line in done.stderr.splitlines() if line != "ready"]
            why = one_line(words[-1]) if words else "it was killed"
            raise SkblabError(f"{self._name} ended without a document (exit {done.status}): {why}")
        self.look()
        return self._last


@contextlib.contextmanager
def started(
    transport: Transport,
    argv: Sequence[str],
    too_late: str,
    patience: int = 1,
    others: Callable[[str], None] | None = None,
) -> Iterator[Running]:
    """Have a program of ours run and be ready; UsageError with its own words if it refuses.

    What is raised while it runs ends it. `too_late` says in words that it was not ready in time,
    which is `patience` times the usual. `others`, if given, is called with each other line of a
    refusal.
    """
    running = transport.start(argv)
    seconds = patience * ATTACH_SECONDS
    deadline = time.monotonic() + seconds
    while running.running() and not running.said("ready"):
        if time.monotonic() > deadline:
            running.interrupt()
            raise UsageError(f"{too_late} in {seconds} s")
        time.sleep(0.02)
    if not running.running():
        name = PurePosixPath(argv[0]).name
        done = running.wait(END_SECONDS)
        if done.status == EXIT_USAGE:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            own = [line for line in said if line.startswith(f"{name}: ")] or said
            for line in said:
                if others is not None and line != own[0]:
                    others(line)
            raise UsageError(own[0].removeprefix(f"{name}: "))
        done.check(name)
    try:
        yield running
    except BaseException:
        with contextlib.suppress(Exception):
            if running.running():
                running.interrupt()
        raise


@contextlib.contextmanager
def until_asked() -> Iterator[Callable[[], bool]]:
    """Take the first Ctrl-C as the wish for a summary; a second one stops everything."""
    asked = False
    before = signal.getsignal(signal.SIGINT)

    def ask(_: int, __: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
