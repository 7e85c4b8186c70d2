# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep in less time than its file asks for, by stated rules: `--scale X` and `--minutes N`.

`--scale` makes each trial X times as long, but none that its file has longer is shorter than one
second. `--minutes` is a budget, and comes before that of the file. If it has no room for the blocks
that the file wants at least, trials are made shorter, all by one share, until it has; if it has
none for them at the shortest trials either, fewer blocks are measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pydantic import ValidationError

from skblab.sweep.experiment import Experiment
from skblab.sweep.measure.base import Section, Sections
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.lengths import LEAST_SECONDS, is_length
from skblab_analysis.base.lengths import scaled as _length

# Trials are made shorter in steps of this share.
STEPS = 10_000


def scaled(experiment: Experiment, scale: float) -> Experiment:
    """Return the experiment with trials `scale` times as long; UsageError if that is too long."""
    measured = experiment.measure
    sections = {
        name: _section(name, section, scale)
        for name, section in _sections(measured)
        if list(_lengths(section))
    }
    return experiment.model_copy(update={"measure": measured.model_copy(update=sections)})


def budgeted(experiment: Experiment, minutes: float) -> Experiment:
    """Return the experiment with this budget instead of its own."""
    repeats = experiment.repeats.model_copy(update={"budget_minutes": minutes})
    return experiment.model_copy(update={"repeats": repeats})


def share(experiment: Experiment, minutes: float, seconds: Callable[[Experiment], float]) -> float:
    """Return by which trials have to be shorter for the fewest blocks to fit in some minutes.

    `seconds` says how long an experiment takes; it is asked about one of so many blocks.
    """
    repeats = experiment.repeats.model_copy(update={"most": experiment.repeats.least})
    fewest = experiment.model_copy(update={"repeats": repeats})
    longest = max(
        (length for _, section in _sections(experiment.measure) for _, length in _lengths(section)),
        default=LEAST_SECONDS,
    )
    # Below this share all are at their shortest.
    low = min(STEPS, max(1, math.floor(STEPS * LEAST_SECONDS / longest)))
    high = STEPS
    if seconds(fewest) <= 60 * minutes:
        return 1.0
    while high - low > 1:
        middle = (low + high) // 2
        fits = seconds(scaled(fewest, middle / STEPS)) <= 60 * minutes
        low, high = (middle, high) if fits else (low, middle)
    return low / STEPS


def told(experiment: Experiment, scale: float) -> Iterator[str]:
    """Yield how long trials are made, if not as long as the file of `experiment` asks for."""
    if scale == 1:
        return
    lengths = ", ".join(
        f"measure.{name}.{field} = {_length(length, scale):g} (the file: {length:g})"
        for name, section in _sections(experiment.measure)
        for field, length in _lengths(section)
        if _length(length, scale) != length
    )
    if not lengths:
        yield f"No trial is shorter: none is made shorter than {LEAST_SECONDS:g} s."
        return
    yield f"Trials last {scale:g} of the time that the file asks for: {lengths}."


def _sections(measured: Sections) -> Iterator[tuple[str, Section]]:
    for name in type(measured).model_fields:
        if isinstance(section := getattr(measured, name), Section):
            yield name, section


def _lengths(section: Section) -> Iterator[tuple[str, float]]:
    """Yield what of a section are lengths of its trials, in seconds."""
    for name in type(section).model_fields:
        length = getattr(section, name)
        if is_length(name) and length is not None:
            yield name, length


def _section(name: str, section: Section, scale: float) -> Section:
    changed = {field: _length(length, scale) for field, length in _lengths(section)}
    try:
        return type(section).model_validate(section.model_dump() | changed)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("measure", name, *fault["loc"])))
        msg = fault["msg"].removeprefix("Value error, ")
        would = f" would be {fault['input']:g}" if isinstance(fault["input"], float) else ""
        raise UsageError(f"trials {scale:g} times as long: {where}{would}: {msg}") from None
