# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of ours as a probe's target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from skblab.lab import kernel, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.watch import Watch
from skblab.probe import targets
from skblab.probe.targets import Target
from skblab.testbeds import traffic
from skblab_analysis.formats.heard import reason

PATHLAT = "pathlat"


@contextlib.contextmanager
def guest_of_ours(
    chosen: kernel.Request,
    root: LabRoot,
    reporter: Reporter,
    prepare: Callable[[Target], None],
    log: Path | None = None,
    arguments: Sequence[str] = (),
    *,
    exact: bool = False,
    program: str = PATHLAT,
) -> Iterator[Target]:
    """Boot a guest with the probe in it, and `prepare` it; `log` keeps its console.

    `arguments` are words of its kernel's command line. The clock of an `exact` one counts
    instructions.
    """
    built = kernel.ensure(chosen, root, reporter)
    shares = [Bind(tools.ensure(root, built, reporter), "tools")]
    spec = make_spec(arguments=list(arguments), exact=exact)
    mode = ("in exact mode",) if exact else ()
    reporter.say(f"booting {' '.join((built.record.release, *arguments, *mode))}")
    with Guest.boot(spec, built, root, shares=shares, log=log) as guest:
        there = f"{traffic.PROGRAMS}/{program}"
        release = built.record.release
        target = Target(targets.GUEST, guest.transport, there, release, built, guest)
        prepare(target)
        if said := Watch({targets.GUEST: guest.console}).look():
            reporter.say(f"before anything was measured: {reason(said)}")
        yield target
