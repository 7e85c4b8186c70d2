# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the back ends agree on where a packet's instructions go? The medians of `probe verify`.

In `exact` mode the guest's clock counts instructions. The same load runs with one back end after
the other, a packet at a time, and each tells the median of every layer. A back end's own work is in
its figures: from nothing, where it falls between two layers, up to all that it adds to a packet,
which is what its calibration counted. So the true median of a layer is between what a back end
says less its cost and what it says, and back ends agree if there is a number in all these ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skblab.lab import kernel, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.watch import Watch
from skblab.probe import cost, loads, targets
from skblab.probe.backends import attached
from skblab.probe.loads import Load
from skblab.probe.request import BPF
from skblab.probe.targets import Target
from skblab.probe.verify.agreement import COMMON, SURE, UDP_POINTS
from skblab.probe.verify.plan import Backend
from skblab.testbeds import traffic
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.cost import ExactCost, Probe
from skblab_analysis.formats.pathlat import LayerDistribution, PathDocument, PathlatDocument
from skblab_analysis.formats.scripts import ScriptDocument, ScriptsDocument

PACKETS = 1009
# A second: a packet has gone before the next one comes.
RATE = 200
# Every packet of these goes the same way; of a connection, acknowledgements go another.
LOADS = (Load(), Load(forward=True))
WHOLE = "whole path"


@dataclass(frozen=True)
class Layer:
    """A layer of a path; `to` is its last point, or WHOLE."""

    path: str
    to: str

    def __str__(self) -> str:
        """The layer's name."""
        return f"{self.path}: {self.to}"


@dataclass(frozen=True)
class Measured:
    """What a back end says: the median of each layer, and what it adds to a packet of a path.

    All in instructions; a median is the bucket of the histogram that it is in, `low` to `high`.
    """

    backend: str
    cost: Mapping[str, float]
    medians: Mapping[Layer, tuple[int, int]]


@dataclass(frozen=True)
class Agreement:
    """A layer's true median is at least `low` and at most `high` instructions; none if low > high.

    `lowest` and `highest` name the back ends that say so.
    """

    layer: Layer
    low: float
    high: int
    lowest: str
    highest: str


def measure(
    built: kernel.Kernel, backends: Sequence[Backend], labroot: LabRoot, reporter: Reporter
) -> list[Measured]:
    """Run the loads with one back end after the other, in a guest in exact mode.

    Raises RefusedError if what a back end costs cannot be told.
    """
    costs = [cost.count(built, _probe(backend), labroot, reporter) for backend in backends]
    shares = [Bind(tools.ensure(labroot, built, reporter), "tools")]
    spec = make_spec(exact=True, flavour=built.record.flavour)
    found = []
    reporter.say(f"booting {built.release} in exact mode")
    watch = Watch()
    with Guest.boot(spec, built, labroot, shares=shares) as guest:
        watch.sources[targets.GUEST] = guest.console
        program = f"{traffic.PROGRAMS}/pathlat"
        target = Target(targets.GUEST, guest.transport, program, built.release, built, guest)
        loads.prepare(guest.transport, napi=True)
        for load in LOADS:
            # Neighbours, routes and the programs themselves are found for the first time.
            loads.run(target.transport, load, 100, RATE)
        with reporter.bar("medians", len(backends)) as done:
            for number, (backend, price) in enumerate(zip(backends, costs, strict=True), 1):
                found.append(_measured(target, backend, price, labroot, reporter))
                done(number)
    watch.refuse("the medians are worth nothing")
    return found


def agreements(found: Sequence[Measured]) -> Iterator[Agreement]:
    """Yield what the back ends together say of each layer, in the order of the first one's."""
    for layer in dict.fromkeys(layer for measured in found for layer in measured.medians):
        if missing := [measured.backend for measured in found if layer not in measured.medians]:
            raise SkblabError(f"{', '.join(missing)}: no median of {layer}")
        low = max(found, key=lambda measured: _least(measured, layer))
        high = min(found, key=lambda measured: measured.medians[layer][1])
        yield Agreement(
            *(layer, _least(low, layer), high.medians[layer][1]), low.backend, high.backend
        )


def _least(measured: Measured, layer: Layer) -> float:
    return max(0.0, measured.medians[layer][0] - measured.cost[layer.path])


def complaints(found: Sequence[Measured]) -> list[str]:
    """Return what does not agree, in words.

    Each layer has to have a true median. And what a back end says in its layers beyond the least
    that is said of each has to be its own work: in all, no more than this costs.
    """
    agreed = list(agreements(found))
    said = [
        f"{agreement.layer}: {agreement.lowest} says at least {agreement.low:.0f} instructions, "
        f"its own work taken off, and {agreement.highest} at most {agreement.high}"
        for agreement in agreed
        if agreement.low > agreement.high
    ]
    for backend in found:
        for path, price in backend.cost.items():
            beyond = sum(
                max(0, backend.medians[agreement.layer][0] - agreement.high)
                for agreement in agreed
                if agreement.layer.path == path and agreement.layer.to != WHOLE
            )
            if beyond > price:
                said.append(
                    f"{path}: the layers of {backend.backend} have {beyond} instructions more than "
                    f"the least that is said of each; its own work is {price:.0f}"
                )
    return said


def _probe(backend: Backend) -> Probe:
    kprobes = bool(backend.request.kprobes)
    return Probe.model_validate(
        {"backend": backend.tool, "source": backend.request.source, "kprobes": kprobes}
    )


def _measured(
    target: Target, backend: Backend, price: ExactCost, labroot: LabRoot, reporter: Reporter
) -> Measured:
    medians: dict[Layer, tuple[int, int]] = {}
    for load in LOADS:
        with (
            targets.stamps_for(target, backend.request.source),
            attached(backend.tool, target, backend.request, labroot, reporter) as probing,
        ):
            sent = loads.run(target.transport, load, PACKETS, RATE)
            text = probing.end()
        if (sent.sent, sent.received) != (PACKETS, PACKETS):
            raise SkblabError(
                f"{backend.name}, {load}: sent {sent.sent}, read {sent.received} of {PACKETS}"
            )
        path = "forward" if load.forward else "receive"
        medians |= _medians(_path(backend, text, path), load)
    return Measured(backend.name, {"receive": price.receive, "forward": price.forward}, medians)


def _path(backend: Backend, text: str, path: str) -> PathDocument | ScriptDocument:
    if backend.tool == BPF:
        document = parse(PathlatDocument, text, "the probe's document")
        timed = next(timed for timed in document.paths if timed.path == path)
        # One load, one path: all that came in went this way.
        first = document.in_.layers if document.in_ is not None else ()
        return timed.model_copy(update={"layers": (*first, *timed.layers)})
    scripts = parse(ScriptsDocument, text, "the scripts' document").scripts
    return next(script for script in scripts if script.script == path)


def _medians(document: PathDocument | ScriptDocument, load: Load) -> dict[Layer, tuple[int, int]]:
    """Return each layer's median; of a forwarded packet only after it can be told from others.

    Up to its route, hooks and histograms count a packet that is received later like one that is
    forwarded.
    """
    path = "forward" if load.forward else "receive"
    wanted = set(SURE["forward"]) if load.forward else {*COMMON, *UDP_POINTS}
    found = {
        Layer(path, distribution.to_point): distribution
        for distribution in document.layers
        if distribution.to_point in wanted
    }
    assert document.path_time is not None
    return {
        layer: _median(distribution)
        for layer, distribution in {**found, Layer(path, WHOLE): document.path_time}.items()
    }


def _median(distribution: LayerDistribution) -> tuple[int, int]:
    """Return the bucket that the median is in."""
    rest = -(-distribution.count // 2)
    for lower, upper, count in distribution.histogram().rows():
        rest -= count
        if rest <= 0:
            return lower, upper
    raise SkblabError(f"{distribution.to_point}: no packets, and no median")
