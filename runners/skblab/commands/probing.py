# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that the probes have in common: where to measure, and a guest's own traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.options import KERNEL_HELP, complete_kernel
from skblab.lab import kernel
from skblab.probe import targets

# Where a command's help has those of a guest.
OURS = "With --on guest"

Where = Annotated[
    str,
    typer.Option(
        metavar="WHERE",
        help="Measure here, in a guest (with a kernel and traffic of ours), or on [USER@]HOST.",
        autocompletion=lambda: [targets.HERE, targets.GUEST],
    ),
]
SshConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For a host: SSH's configuration file, as for ssh -F."),
]
LoadName = Annotated[
    str,
    typer.Option(
        help="udp, tcp or sctp; 6 after it for IPv6; then -forward: udp, tcp6-forward.",
        rich_help_panel=OURS,
    ),
]
Packets = Annotated[
    int,
    typer.Option(
        min=1,
        max=10_000_000,
        help="Send so many packets or messages.",
        rich_help_panel=OURS,
    ),
]
Rate = Annotated[
    int,
    typer.Option(
        min=0,
        help="Send so many a second; 0: as fast as the sender can.",
        rich_help_panel=OURS,
    ),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Count instructions instead of nanoseconds, on one CPU: they repeat.",
        rich_help_panel=OURS,
    ),
]
GuestFlavour = Annotated[
    str,
    typer.Option(
        help=f"Kernel flavour: {', '.join(kernel.FLAVOURS)}.",
        autocompletion=lambda: list(kernel.FLAVOURS),
        rich_help_panel=OURS,
    ),
]
GuestKernel = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help=KERNEL_HELP,
        autocompletion=complete_kernel,
        rich_help_panel=OURS,
    ),
]
