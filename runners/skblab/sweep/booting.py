# SPDX-License-Identifier: GPL-2.0-or-later
"""The boots of a plan in guests: their kernels, built before all trials, and how each begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skblab.knobs import boot
from skblab.lab import kernel
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import Transport
from skblab.sweep.plan import Plan
from skblab.sweep.planned import Boot
from skblab_analysis.base.errors import one_line


@dataclass(frozen=True)
class Booting:
    """How the guests of a run are booted: `flavour` and `patches` unless a knob says another.

    All kernels are of one source.
    """

    flavour: str
    patches: bool
    kernels: Mapping[tuple[str, bool], kernel.Kernel]

    def start(self, wanted: Boot) -> boot.Start:
        """Return how this boot begins."""
        return boot.start(wanted.knobs, self.flavour, patches=self.patches)

    def kernel_of(self, wanted: Boot) -> kernel.Kernel:
        """Return the kernel of this boot."""
        begins = self.start(wanted)
        return self.kernels[begins.flavour, begins.patches]

    @property
    def first(self) -> kernel.Kernel:
        """The kernel of the run, or where knobs choose all of them, the first of these."""
        return self.kernels.get((self.flavour, self.patches)) or next(iter(self.kernels.values()))

    def others(self) -> dict[str, str]:
        """Return the releases of the further kernels, by name."""
        return {
            f"kernel {flavour}{'' if patches else ' without patches'}": built.release
            for (flavour, patches), built in self.kernels.items()
            if built is not self.first
        }


def requests(plan: Plan, flavour: str, name: Name) -> dict[tuple[str, bool], kernel.Request]:
    """Return the kernels that the boots of a plan need, by flavour and patches.

    UsageError if one cannot be had.
    """
    found = {}
    for wanted in plan.boots:
        begins = boot.start(wanted.knobs, flavour, patches=name.patches)
        key = begins.flavour, begins.patches
        found[key] = name.request(begins.flavour, patches=begins.patches)
    return found


def ensure(plan: Plan, flavour: str, root: LabRoot, reporter: Reporter, name: Name) -> Booting:
    """Build what kernels the boots of a plan need, and are not there yet."""
    kernels = {
        key: kernel.ensure(request, root, reporter)
        for key, request in requests(plan, flavour, name).items()
    }
    return Booting(flavour, name.patches, kernels)


def begin(transport: Transport, begins: boot.Start) -> str | None:
    """Do in a guest what comes first; return what failed of it, in words.

    It does not end the run: whoever reads the setting finds that it is not there.
    """
    for script in begins.scripts:
        done = transport.script(script)
        if done.status:
            return one_line(done.stderr) or f"exit {done.status}"
    return None
