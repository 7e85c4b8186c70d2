# SPDX-License-Identifier: GPL-2.0-or-later
"""A plan as its user reads it, and the scripts of it, without anything that is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from skblab.knobs.base import DEVICE, Knob
from skblab.knobs.boot import STOCK, start
from skblab.knobs.values import Value, literal, words
from skblab.machine.device import Machine
from skblab.sweep.experiment import BASELINE, knobs_of
from skblab.sweep.measure.base import warming
from skblab.sweep.measure.exact import Exact
from skblab.sweep.measures import parts
from skblab.sweep.plan import Plan
from skblab.testbeds import Kind, Sending
from skblab.testbeds.base import WARM_UP


def commands(
    plan: Plan,
    kind: Kind,
    packets: int,
    flavour: str = STOCK,
    *,
    patches: bool = True,
    exact_cpus: int = 1,
) -> Iterator[str]:
    """Yield each command once, under what it is for; `packets` of each exact trial.

    Of a search that is the first load, and of RFC 2544's other tests one of each as if that load
    were the result: what comes after depends on what became of it.
    """
    asked = plan.experiment.measure
    taking = parts(asked, Exact(packets) if plan.exact else None)
    cpus = exact_cpus if plan.exact else kind.cpus(plan.experiment)
    machine = kind.machine(cpus)
    for boot in (boot for boot in plan.boots if boot.block == 0):
        if kind.boots:
            begins = start(boot.knobs, flavour, patches=patches)
            yield f"# booting: {begins}"
            yield from begins.scripts
        yield "# making the testbed"
        yield from kind.commands(plan.experiment.traffic)
        yield from _warm_up(plan, kind, cpus)
        for of_setting in boot.settings:
            yield f"# {of_setting.setting}"
            yield from setting(machine, of_setting.knobs, plan.experiment.catalogue)
            for measurement in of_setting.measurements:
                fills = Sending(measurement.stream, WARM_UP, tester=measurement.tester)
                yield f"{kind.offering(fills, cpus)}  # fills the caches"
                for part in (part for part in taking if part.joins(measurement)):
                    yield from part.commands(asked, measurement, kind, cpus)


def overview(plan: Plan) -> Iterator[str]:
    """Yield what is measured of which settings, and what sets each value by hand."""
    experiment = plan.experiment
    streams = [str(stream) for stream in experiment.traffic.each()]
    names = [part.name for part in parts(experiment.measure, Exact() if plan.exact else None)]
    yield f"\nMeasured: {', '.join(names)}; traffic: {'; '.join(streams)}"
    yield "Settings, each in every block, in random order:"
    yield f"  {BASELINE} (twice): {words(experiment.baseline) or 'the router as it is'}"
    values: dict[tuple[str, str], str] = {}
    catalogue = experiment.catalogue
    for setting in (None, *experiment.settings()):
        if setting is not None:
            # A combination of the matrix is named after its values.
            of_matrix = setting not in experiment.setting
            yield f"  {setting.name}" if of_matrix else f"  {setting.name}: {words(setting.knobs)}"
        for name, value in knobs_of(experiment, setting).items():
            values[name, literal(value)] = catalogue[name].by_hand(value)
    if values:
        yield f"\nWhat sets each value by hand ({DEVICE}: each network device of the router):"
    width = max((len(f"{name} = {value}") for name, value in values), default=0)
    for (name, value), hand in values.items():
        yield f"  {f'{name} = {value}':{width}}  {hand}"


def order(plan: Plan) -> Iterator[str]:
    """Yield the settings and measurements of each block, in their order."""
    for boot in plan.boots:
        yield f"\nblock {boot.block + 1}{f', {boot}' if boot.knobs else ''}"
        for of_setting in boot.settings:
            yield f"  {of_setting.setting}"
            for measurement in of_setting.measurements:
                yield f"    {measurement.number}: {measurement}"


def setting(
    machine: Machine, knobs: Mapping[str, Value], catalogue: Mapping[str, Knob]
) -> list[str]:
    """Return the command that sets each of these knobs that no boot sets."""
    return [
        _set(machine, catalogue[name], value)
        for name, value in knobs.items()
        if not catalogue[name].boot
    ]


def _warm_up(plan: Plan, kind: Kind, cpus: int) -> Iterator[str]:
    seconds = plan.experiment.repeats.warm_up_seconds
    if seconds and not plan.exact:
        yield "# warming up"
        stream = next(plan.experiment.traffic.each())
        yield kind.offering(warming(stream, seconds), cpus)


def _set(machine: Machine, knob: Knob, value: Value) -> str:
    return knob.restore(machine, knob.wanted(machine, value, knob.likely(machine)))
