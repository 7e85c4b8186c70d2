# SPDX-License-Identifier: GPL-2.0-or-later
"""The script that sets what is advised, and with --revert puts back what was there.

Its commands are those of the sweep that tried them, for the ports of the router's own names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value, text
from skblab.machine.device import Device, Machine
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.settings.rows import ReadBack

SET, REVERT = "set", "--revert"
# What TuneD calls a profile's script with.
START, STOP = "start", "stop"


def at_home(machine: Machine, ports: Sequence[str] | None) -> Machine:
    """Return the router outside of a sweep: in no namespace, its ports by their own names."""
    if ports is None:
        return machine.entered
    devices = tuple(
        Device(port, None, device.beyond)
        for device, port in zip(machine.devices, ports, strict=True)
    )
    return replace(machine, devices=devices, netns=None)


def states(
    found: Iterable[ReadBack], knobs: Mapping[str, Value], baseline: Mapping[str, Value]
) -> dict[str, tuple[str, str]]:
    """Return for each knob what it was and what it is to be, as trials of a sweep had it.

    It was what the baseline has, and else what the sweep found. SkblabError for a knob that no
    trial has set.
    """
    was: dict[str, str] = {}
    wanted: dict[str, str] = {}
    for row in found:
        if row.knob in baseline and row.value == text(baseline[row.knob]):
            was.setdefault(row.knob, row.wanted)
        if row.knob in knobs and row.value == text(knobs[row.knob]):
            wanted.setdefault(row.knob, row.wanted)
            if row.knob not in baseline:
                was.setdefault(row.knob, row.before)
    set_by_scripts = [name for name in knobs if not KNOBS[name].boot]
    if lacking := [name for name in set_by_scripts if name not in wanted or name not in was]:
        raise SkblabError(f"no trial has set {', '.join(lacking)}")
    return {name: (was[name], wanted[name]) for name in set_by_scripts}


def script(machine: Machine, about: Sequence[str], found: Mapping[str, tuple[str, str]]) -> str:
    """Return the script; `found` has for each knob what it was and what it is to be."""
    # Undone in the opposite order: what came last may rest on what came first.
    undo = [_restoring(machine, knob, was) for knob, (was, _) in reversed(list(found.items()))]
    do = [_restoring(machine, knob, wanted) for knob, (_, wanted) in found.items()]
    comments = "".join(f"# {line}\n" for line in about)
    return f"""#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
{comments}set -eu
case "${{1-{SET}}}" in
{SET} | {START})
{_indented(do)}\t;;
{REVERT} | {STOP})
{_indented(undo)}\t;;
*)
\techo "expected nothing, which sets it, or {REVERT}, which puts it back" >&2
\texit 2
\t;;
esac
"""


def _restoring(machine: Machine, knob: str, state: str) -> str:
    return f"sh -ec {shlex.quote(KNOBS[knob].restore(machine, state))}\n"


def _indented(commands: Sequence[str]) -> str:
    return "".join(f"\t{command}" for command in commands) or "\t:\n"
