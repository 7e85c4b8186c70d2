# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep measures: where packets come from, the router under test, and where they end.

A new testbed is one module here, with a KIND, and its script, which goes on from the library that
demo, benchmark and probe use as well:

net.sh        quiet namespaces, veth pairs, addresses, neighbours, sinks
generator.sh  pktgen, asked by name=value words
tester.sh     generator and sink together: what is sent, and what came
router.sh     the device under test: its addresses, and what it handed over
"""

from importlib import import_module
from pkgutil import iter_modules

from skblab.testbeds.base import CableError, GuestKind, Kind, Offered, Testbed
from skblab.testbeds.hosts import HOSTS
from skblab.testbeds.netns import NETNS
from skblab.testbeds.sending import Sending
from skblab.testbeds.virtio import VIRTIO


def kinds() -> dict[str, Kind]:
    """Return the kinds of all modules here by name, those that are booted first.

    TypeError for a KIND that is none, ValueError for two of one name.
    """
    found: dict[str, Kind] = {}
    for module in iter_modules(__path__):
        kind = getattr(import_module(f"{__name__}.{module.name}"), "KIND", None)
        if kind is None:
            continue
        if not isinstance(kind, Kind):
            raise TypeError(f"{module.name}: KIND is {kind!r}, expected a Kind")
        if kind.name in found:
            raise ValueError(f"{module.name}: another module has a testbed {kind.name}, too")
        found[kind.name] = kind
    return dict(sorted(found.items(), key=lambda item: not item[1].boots))


KINDS = kinds()
# Those that skblab boots by itself.
GUESTS = {name: kind for name, kind in KINDS.items() if isinstance(kind, GuestKind)}

__all__ = [
    "GUESTS",
    "HOSTS",
    "KINDS",
    "NETNS",
    "VIRTIO",
    "CableError",
    "GuestKind",
    "Kind",
    "Offered",
    "Sending",
    "Testbed",
]
