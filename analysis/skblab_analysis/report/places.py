# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs have to have in common, or their figures are not compared.

A figure is one of its testbed. On the wall clock it is one of the processor as well; instructions
are those of the emulated processor, on whatever machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from skblab_analysis.base.sampled import Sampled
from skblab_analysis.formats.run import RunDocument
from skblab_analysis.load import Run
from skblab_analysis.report import asked
from skblab_analysis.trials.rows import Clock

# Of the facts of an environment: which hosts they are, and what their packets pass.
HOSTS = ("router", "tester")
FACTS = re.compile(r"router CPU|router \S+ (driver|link)")
UNKNOWN = asked.NOT_KNOWN


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


def measured(run: Run, sample: Sampled) -> Mapping[str, str]:
    """Return by its name each thing of how a figure was measured that it depends on."""
    return dict(sample.how) | dict(asked.how(run, sample.measure))


def differ(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Sequence[str]:
    """Return in words what two places do not have in common; nothing if they are the same."""
    return [
        f"{name}: {theirs.get(name, UNKNOWN)}, not {ours.get(name, UNKNOWN)}"
        for name in dict.fromkeys((*ours, *theirs))
        if ours.get(name) != theirs.get(name)
    ]


def beside_place(ours: Run, theirs: Run, clock: Clock) -> Sequence[str]:
    """Return in words what else two runs differ in, which their figures may be of."""
    found = []
    documents = ours.document, theirs.document
    for name, one, other in (
        ("kernel", *(_kernel(document) for document in documents)),
        ("patches", *(_patches(document) for document in documents)),
    ):
        if one != other:
            found.append(f"{name}: {other}, not {one}")
    parameters, others = (document.plan.parameters for document in documents)
    # A digest says nothing, and the rest of them is how long the run was to take.
    unsaid = {"plan", "minutes", "testbed", "clock"}
    if clock == "wall" and asked.of(ours) and asked.of(theirs):
        # How long trials are that it made shorter is said below.
        unsaid.add("scale")
    for name in dict.fromkeys((*parameters, *others)):
        if name in unsaid or name.startswith("published "):
            continue
        one, other = str(parameters.get(name, "none")), str(others.get(name, "none"))
        if one != other:
            found.append(f"{name}: {other}, not {one}")
    if clock == "wall":
        # Instructions are counted by no section of a file.
        found += [
            f"{name}: {other}, not {one}" for name, one, other in asked.differing(ours, theirs)
        ]
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
