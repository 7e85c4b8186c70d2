# SPDX-License-Identifier: GPL-2.0-or-later
"""The throughput that a probe leaves: the same load as fast as it goes, without and with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from skblab.lab import kernel, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.watch import Watch
from skblab.probe import loads, targets
from skblab.probe.backends import attached
from skblab.probe.loads import Load
from skblab.probe.request import AUTO, Request
from skblab.probe.targets import Target
from skblab.testbeds import traffic
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.cost import Pair, Probe, WallCost

PACKETS = 10_000
PAIRS = 5
# With the probe or not. A drift would not look like a difference: every other pair runs the other
# way round.
ORDER = [watched for pair in range(PAIRS) for watched in (pair % 2 == 1, pair % 2 == 0)]


def measure(built: kernel.Kernel, probe: Probe, load: Load, labroot: LabRoot) -> WallCost:
    """Run the pairs in a guest of that kernel."""
    shares = [Bind(tools.ensure(labroot, built, Reporter(quiet=True)), "tools")]
    spec = make_spec(flavour=built.record.flavour)
    watch = Watch()
    with Guest.boot(spec, built, labroot, shares=shares) as guest:
        watch.sources["guest"] = guest.console
        program = f"{traffic.PROGRAMS}/pathlat"
        target = Target(targets.GUEST, guest.transport, program, built.release, built)
        loads.prepare(guest.transport)
        _once(target, load)
        rates = _rates(target, probe, load, labroot)
    watch.refuse(f"what the probe costs on {built.release} cannot be told")
    return WallCost(
        probe=probe,
        kernel=built.release,
        load=str(load),
        packets=PACKETS,
        accel=spec.accel,
        pairs=_pairs(rates),
    )


def _rates(target: Target, probe: Probe, load: Load, labroot: LabRoot) -> list[float]:
    """Return what arrived per second in each run, in the order of ORDER."""
    found = []
    for watched, turns in groupby(ORDER):
        # What follows upon its like is done at once: to attach takes longer than to run.
        with _attached(target, probe, labroot) if watched else contextlib.nullcontext():
            found += [_once(target, load) for _ in turns]
    return found


def _pairs(rates: Sequence[float]) -> tuple[Pair, ...]:
    found = []
    for number in range(PAIRS):
        by_state = dict(zip(ORDER[2 * number :][:2], rates[2 * number :][:2], strict=True))
        first: Literal["without", "with"] = "with" if ORDER[2 * number] else "without"
        found.append(Pair(first=first, without_probe=by_state[False], with_probe=by_state[True]))
    return tuple(found)


@contextlib.contextmanager
def _attached(target: Target, probe: Probe, labroot: LabRoot) -> Iterator[None]:
    """Have stamps on, if they are read, and the probe attached; both only here."""
    with targets.stamps_for(target, probe.source):
        source = AUTO if probe.polls == "samples" else probe.source
        request = Request(source=source, kprobes=probe.kprobes or None)
        reporter = Reporter(quiet=True)
        with attached(probe.backend, target, request, labroot, reporter) as probing:
            yield
            probing.end()


def _once(target: Target, load: Load) -> float:
    """Return packets or messages that arrived per second."""
    sent = loads.run(target.transport, load, PACKETS, 0)
    if not sent.rate:
        raise SkblabError(f"{sent.received} of {sent.sent} arrived, too few to tell the throughput")
    return sent.rate
