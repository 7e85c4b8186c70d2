# SPDX-License-Identifier: GPL-2.0-or-later
"""The scripts of probes/bpftrace and probes/systemtap as back ends: started, and read."""

from skblab.probe.scripts.session import BACKENDS, attached, names

__all__ = ["BACKENDS", "attached", "names"]
