# SPDX-License-Identifier: GPL-2.0-or-later
"""How commands reach a machine: one interface for guests, real hosts and namespaces."""

from skblab.machine.transport.base import Running, Transport, TransportError
from skblab.machine.transport.local import LocalTransport
from skblab.machine.transport.shell import Shell, staying
from skblab.machine.transport.ssh import SshTransport

__all__ = [
    "LocalTransport",
    "Running",
    "Shell",
    "SshTransport",
    "Transport",
    "TransportError",
    "staying",
]
