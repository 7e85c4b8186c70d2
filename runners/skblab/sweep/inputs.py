# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep's figures depend on beside its plan: kernels, how guests run, files that knobs read.

A run that goes on later must have the same: else two kernels would be compared as one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from skblab.lab import kvm
from skblab.lab.labroot import Bind, LabRoot
from skblab.sweep.booting import Booting
from skblab.sweep.plan import Plan
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.run import Environment
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder

EVENT, MACHINES = "inputs", "machines"
# Knobs whose value may be the name of a file.
OF_FILES = ("routes", "routes6")


def inputs(
    plan: Plan, boots: Booting, root: LabRoot, shares: Sequence[Bind] = ()
) -> dict[str, str]:
    """Return each of them by its name, as what tells it from another one.

    `shares` are folders of the cache, whose names are keys of their content.
    """
    found = {
        f"kernel {flavour}{'' if patches else ' without patches'}": built.key
        for (flavour, patches), built in boots.kernels.items()
    }
    found["lab root"] = root.key
    found |= {share.point: share.source.name for share in shares}
    accelerated = not plan.exact and kvm.verdict().works
    found["guests"] = "kvm" if accelerated else "tcg"
    return found | files(plan)


def files(plan: Plan) -> dict[str, str]:
    """Return the files that values of knobs name, as what tells their contents from others."""
    found = {}
    for boot in plan.boots:
        for setting in boot.settings:
            for name in OF_FILES:
                value = setting.knobs.get(name)
                if isinstance(value, str):
                    content = Path(value).read_bytes()
                    found[f"{name} {value}"] = hashlib.sha256(content).hexdigest()[:16]
    for value, text in plan.experiment.rules.items():
        found[f"netfilter {value}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def machines(found: Environment) -> dict[str, str]:
    """Return what figures depend on of hosts, which nobody boots for a run."""
    asked = ("release", "version", "config", "command line", "CPU", "CPUs", "microcode")
    names = [f"{host} {fact}" for host in ("router", "tester") for fact in asked]
    return {name: found.more[name] for name in names if name in found.more}


class _Began(BaseModel):
    """What the journal says of what a run depends on."""

    found: dict[str, str]


def check(folder: RunFolder, found: dict[str, str], event_name: str = EVENT) -> None:
    """Keep what a run depends on; UsageError if it began with something else.

    `event_name`: what is known later than the rest has an event of its own in the journal.
    """
    for event in load(folder.path).journal:
        if event.event != event_name:
            continue
        before = event.told(_Began).found
        for name in sorted(found.keys() | before.keys()):
            if found.get(name) != before.get(name):
                raise UsageError(
                    f"{folder.path}: {name} was {before.get(name, 'not there')} when it began, and "
                    f"is {found.get(name, 'not there')} now: further trials could not be compared "
                    f"with its first ones; to start again: {folder.document.plan.again}"
                )
        return
    folder.journal(event_name, found={**found})
