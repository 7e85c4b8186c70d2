# SPDX-License-Identifier: GPL-2.0-or-later
"""What sends packets in pktgen's place, on the tester of a testbed whose machines are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from skblab.machine.transport import Transport
from skblab.testbeds.sending import Sending, Sent


class Generator(Protocol):
    """A generator: a program that is asked once for each trial."""

    @property
    def name(self) -> str:
        """Which one it is, for `run.json`."""

    @property
    def counts(self) -> bool:
        """Whether it counts what came to the sink itself: the kernel does not have the ports."""

    def send(
        self, transport: Transport, sending: Sending, macs: Mapping[str, str], tag: str
    ) -> Sent:
        """Send, and return what came of it; SkblabError says what is wrong.

        `macs` are the ports' addresses by the names that tester.sh has, `tag` is the ID of the VLAN
        that the router is in, or empty.
        """
