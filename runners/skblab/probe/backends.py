# SPDX-License-Identifier: GPL-2.0-or-later
"""A probe of whichever back end, at work: pathlat, or the scripts of a tool."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.probe import attached as pathlat
from skblab.probe import scripts
from skblab.probe.request import BPF, Request
from skblab.probe.targets import Target


class Probing(Protocol):
    """A probe at work."""

    def look(self) -> bool:
        """Take what it says; False once it has ended."""

    def end(self) -> str:
        """Have it end, and return its document."""


def attached(
    backend: str,
    target: Target,
    request: Request,
    labroot: LabRoot,
    reporter: Reporter,
    lines: Callable[[str], None] = lambda text: None,
) -> AbstractContextManager[Probing]:
    """Have a back end attached; UsageError with its own words if it refuses.

    `lines` is called with each document that pathlat writes before its last; scripts write one.
    """
    if backend == BPF:
        return pathlat.attached(target, request, lines, reporter.say)
    source = request.source or "auto"
    return scripts.attached(backend, target, request.path, source, labroot, reporter)
