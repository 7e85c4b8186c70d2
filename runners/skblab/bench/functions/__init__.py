# SPDX-License-Identifier: GPL-2.0-or-later
"""Counting the guest kernel's instructions by function: the plugin, its counts, the symbols.

    symbols = Symbols.parse((kernel.path / "System.map").read_text())
    marks = [Mark(symbols.address_of("pktgen_xmit"), symbols.address_of("pktgen_stop_device"))]
    spec = make_spec(exact=True).model_copy(update={"plugin": argument(plugin, counts, marks)})
    …                                       # boot it, and run what begins and ends at the marks
    for section in parse(counts_text):
        print(section.by_function(symbols))

`skblab bench functions` is the first user; nothing here knows of packets.
"""

from skblab.bench.functions.counts import UNKNOWN, USER, Section, parse
from skblab.bench.functions.plugin import NAME, Mark, argument, ensure
from skblab.bench.functions.symbols import Symbols

__all__ = ["NAME", "UNKNOWN", "USER", "Mark", "Section", "Symbols", "argument", "ensure", "parse"]
