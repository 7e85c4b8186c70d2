# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep measures: where packets come from, the router under test, and where they end."""

from skblab.sweep.testbeds.base import Kind, Offered, Testbed
from skblab.sweep.testbeds.netns import NETNS
from skblab.sweep.testbeds.sending import Sending
from skblab.sweep.testbeds.virtio import VIRTIO

KINDS: dict[str, Kind] = {one.name: one for one in (NETNS, VIRTIO)}

__all__ = ["KINDS", "NETNS", "VIRTIO", "Kind", "Offered", "Sending", "Testbed"]
