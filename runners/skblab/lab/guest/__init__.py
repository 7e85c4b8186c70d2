# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest is booted from: its machine, its init, its console. Booted in machine/guest.py."""

from skblab.lab.guest.spec import GuestSpec, Nic

__all__ = ["GuestSpec", "Nic"]
