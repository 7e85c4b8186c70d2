# SPDX-License-Identifier: GPL-2.0-or-later
"""The generator of demo, benchmark and sweeps, as shell functions: see generator.sh."""

from __future__ import annotations

from importlib import resources


def functions() -> str:
    """Return what defines `generate`."""
    return resources.files(__package__).joinpath("generator.sh").read_text()
