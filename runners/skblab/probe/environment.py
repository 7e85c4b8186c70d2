# SPDX-License-Identifier: GPL-2.0-or-later
"""What a probe's numbers depend on: the kernel that was probed, and the machine."""

from __future__ import annotations

from skblab.machine.environment import describe as describe_built
from skblab.machine.environment import describe_guest, describe_host
from skblab.probe.targets import Target
from skblab_analysis.formats.run import Environment, Guest, Kernel
from skblab_analysis.trials.rows import Clock

ASK = """
uname -v
grep -m 1 '^model name' /proc/cpuinfo | cut -d: -f2
nproc
cat /proc/cmdline
cat /sys/devices/system/clocksource/clocksource0/current_clocksource
"""


def describe(target: Target) -> Environment:
    """Return the environment of a run on this target."""
    if target.built is not None:
        guests: dict[Clock, Guest] = {}
        if target.guest is not None:
            clock: Clock = "exact" if target.guest.spec.exact else "wall"
            guests[clock] = describe_guest(target.guest)
        return describe_built(target.built, guests)
    answer = target.transport.script(ASK).check("asking the machine what it is").stdout
    version, cpu, cpus, command_line, clocksource = (answer.splitlines() + [""] * 5)[:5]
    return Environment(
        kernel=Kernel(
            release=target.release,
            version=version,
            flavour="not ours",
            config_hash="",
            patches=(),
        ),
        guests={},
        host=describe_host(),
        more={
            "probed": target.name,
            "probed CPU": cpu.strip(),
            "probed CPUs": cpus,
            "probed command line": command_line,
            "probed clock source": clocksource,
        },
    )
