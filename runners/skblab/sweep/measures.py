# SPDX-License-Identifier: GPL-2.0-or-later
"""All that a sweep can measure. A new one is a module or package of `measure/`, and a line here."""

from __future__ import annotations

from skblab.machine.collectors import Tool
from skblab.sweep.measure.base import Measure, Part, Program, Sections
from skblab.sweep.measure.cpu import CPU
from skblab.sweep.measure.events import EVENTS
from skblab.sweep.measure.exact import Exact
from skblab.sweep.measure.latency import LATENCY
from skblab.sweep.measure.layers import LAYERS
from skblab.sweep.measure.rfc2544.part import RFC2544
from skblab.sweep.measure.samples import SAMPLES
from skblab.sweep.measure.throughput.measure import THROUGHPUT

# In the order that plans begin with, before they are put in a random one.
MEASURES: tuple[Measure, ...] = (THROUGHPUT, LATENCY, LAYERS, CPU, EVENTS, SAMPLES)
# RFC 2544's other tests have no measurements of their own: they follow a search.
PARTS: tuple[Part, ...] = (*MEASURES, RFC2544)


def measures(asked: Sections, exact: Exact | None = None) -> list[Measure]:
    """Return what is measured of each setting: with `exact` that, whatever is asked for."""
    if exact is not None:
        return [exact]
    return [measure for measure in MEASURES if asked.get(measure.section)]


def parts(asked: Sections, exact: Exact | None = None) -> list[Part]:
    """Return what takes part in measurements: with `exact` that, whatever is asked for."""
    if exact is not None:
        return [exact]
    return [part for part in PARTS if asked.get(part.section)]


def required(asked: Sections, exact: Exact | None = None) -> list[Tool]:
    """Return the commands that have to be on the router already."""
    wanted = (tool for part in parts(asked, exact) for tool in part.tools(asked))
    return list(dict.fromkeys(wanted))


def programs(asked: Sections, exact: Exact | None = None) -> list[Program]:
    """Return those programs of ours that the machines of a testbed have to have."""
    wanted = (name for part in parts(asked, exact) for name in part.programs(asked))
    return list(dict.fromkeys(wanted))
