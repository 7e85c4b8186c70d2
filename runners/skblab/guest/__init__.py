# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests: a kernel of ours, booted by QEMU from the lab root, controlled over SSH."""

from skblab.guest.machine import Guest
from skblab.guest.spec import GuestSpec, Nic

__all__ = ["Guest", "GuestSpec", "Nic"]
