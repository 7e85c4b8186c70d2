# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs have to have in common, or their figures are not compared.

A figure is one of its testbed. On the wall clock it is one of the processor as well; instructions
are those of the emulated processor, on whatever machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from skblab_analysis.formats.run import RunDocument
from skblab_analysis.trials.rows import Clock

# Of the facts of an environment: which hosts they are, and what their packets pass.
HOSTS = ("router", "tester")
FACTS = re.compile(r"router CPU|router \S+ (driver|link)")
UNKNOWN = "not known"


def place(document: RunDocument, clock: Clock) -> Mapping[str, str]:
    """Return by its name each thing that runs have to have in common on a clock."""
    found = {
        "testbed": str(document.plan.parameters.get("testbed", "none")),
        "numbers": "made up" if document.synthetic else "measured",
    }
    known = document.environment
    if known is None:
        return found | {"environment": UNKNOWN}
    if clock == "wall":
        found |= {"processor": f"{known.host.cpu}, {known.host.cpus} CPUs"}
    guest = known.guests.get(clock)
    if guest is not None:
        found |= {
            "accelerator": guest.accel,
            "CPUs of the guest": str(guest.cpus),
            "emulated processor": _emulated(guest.machine),
        }
    named = HOSTS if found["testbed"] == "hosts" else ()
    return found | {
        name: value for name, value in known.more.items() if name in named or FACTS.fullmatch(name)
    }


def differ(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Sequence[str]:
    """Return in words what two places do not have in common; nothing if they are the same."""
    return [
        f"{name}: {theirs.get(name, UNKNOWN)}, not {ours.get(name, UNKNOWN)}"
        for name in dict.fromkeys((*ours, *theirs))
        if ours.get(name) != theirs.get(name)
    ]


def beside_place(ours: RunDocument, theirs: RunDocument) -> Sequence[str]:
    """Return in words what else two runs differ in, which their figures may be of."""
    found = []
    for name, one, other in (
        ("kernel", *(_kernel(document) for document in (ours, theirs))),
        ("patches", *(_patches(document) for document in (ours, theirs))),
    ):
        if one != other:
            found.append(f"{name}: {other}, not {one}")
    parameters, others = ours.plan.parameters, theirs.plan.parameters
    for name in dict.fromkeys((*parameters, *others)):
        # A digest says nothing, and the rest of them is how long the run was to take.
        if name in ("plan", "minutes", "testbed", "clock") or name.startswith("published "):
            continue
        one, other = str(parameters.get(name, "none")), str(others.get(name, "none"))
        if one != other:
            found.append(f"{name}: {other}, not {one}")
    return found


def _kernel(document: RunDocument) -> str:
    if document.environment is None:
        return UNKNOWN
    kernel = document.environment.kernel
    return f"{kernel.release} ({kernel.flavour}, configuration {kernel.config_hash[:12]})"


def _patches(document: RunDocument) -> str:
    if document.environment is None:
        return UNKNOWN
    return f"{len(document.environment.kernel.patches)}"


def _emulated(machine: str) -> str:
    """Return the processor that an emulator's options name."""
    words = machine.split()
    return next(
        (value for option, value in pairwise(words) if option == "-cpu"),
        "the emulator's own",
    )
