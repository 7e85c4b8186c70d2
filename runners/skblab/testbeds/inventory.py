# SPDX-License-Identifier: GPL-2.0-or-later
"""What a machine of a testbed is, and how it is set up: facts that all figures depend on."""

from __future__ import annotations

import shlex

from skblab.knobs import irq
from skblab.machine import counters
from skblab.machine.device import Machine, script_inside
from skblab.machine.transport import Transport
from skblab.testbeds import base


def read(transport: Transport, machine: Machine | None) -> dict[str, str]:
    """Return facts by name, such as `CPU` and `r0 rings`; of the router also of its devices.

    And of the router, whether its kernel counts what not every kernel does.
    """
    calls = ["machine"]
    if machine is not None:
        ports = "\n".join(
            ["stack", *(shlex.join(["port", device.name]) for device in machine.devices)]
        )
        text = f"{irq.functions()}\n{base.script(ports, 'inventory')}"
        calls += [script_inside(machine.netns, text), counters.functions(), "countable"]
    text = base.script("\n".join(calls), "inventory")
    printed = transport.script(text).check("asking a machine what it is").stdout
    return dict(line.split("\t", 1) for line in printed.splitlines() if "\t" in line)
