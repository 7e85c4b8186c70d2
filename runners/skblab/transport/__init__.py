# SPDX-License-Identifier: GPL-2.0-or-later
"""How commands reach a machine: one interface for guests, real hosts and namespaces."""

from skblab.transport.base import Running, Transport, TransportError
from skblab.transport.local import LocalTransport
from skblab.transport.shell import Shell, staying
from skblab.transport.ssh import SshTransport

__all__ = [
    "LocalTransport",
    "Running",
    "Shell",
    "SshTransport",
    "Transport",
    "TransportError",
    "staying",
]
