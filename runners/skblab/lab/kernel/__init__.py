# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels: from a source tree, our patch series and `kconfig/` to a bootable, cached image."""

from skblab.lab.kernel.build import ensure
from skblab.lab.kernel.model import FLAVOURS, Flavour, Kernel, Request, flavour
from skblab.lab.kernel.registry import readable

__all__ = [
    "FLAVOURS",
    "Flavour",
    "Kernel",
    "Request",
    "ensure",
    "flavour",
    "readable",
]
