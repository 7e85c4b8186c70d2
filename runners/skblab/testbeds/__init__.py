# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep measures: where packets come from, the router under test, and where they end."""

from skblab.testbeds.base import GuestKind, Kind, Offered, Testbed
from skblab.testbeds.hosts import HOSTS
from skblab.testbeds.netns import NETNS
from skblab.testbeds.sending import Sending
from skblab.testbeds.virtio import VIRTIO

# Those that skblab boots by itself.
GUESTS: dict[str, GuestKind] = {one.name: one for one in (NETNS, VIRTIO)}
KINDS: dict[str, Kind] = {**GUESTS, HOSTS.name: HOSTS}

__all__ = [
    "GUESTS",
    "HOSTS",
    "KINDS",
    "NETNS",
    "VIRTIO",
    "GuestKind",
    "Kind",
    "Offered",
    "Sending",
    "Testbed",
]
