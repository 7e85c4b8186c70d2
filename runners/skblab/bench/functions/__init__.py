# SPDX-License-Identifier: GPL-2.0-or-later
"""Counting the guest kernel's instructions by function: the plugin, its counts, the symbols.

    spec = make_spec(exact=True).model_copy(update={"plugin": argument(plugin, counts)})
    …                                       # boot it, and run a program with marks (mark.h)
    symbols = Symbols.parse((kernel.path / "System.map").read_text())
    for section in parse(counts_text):
        print(section.by_function(symbols))

`skblab bench functions` is the first user; nothing here knows of packets.
"""

from skblab.bench.functions.caches import Chosen, named
from skblab.bench.functions.counts import UNKNOWN, USER, Section, Touched, parse
from skblab.bench.functions.plugin import LAYOUT, NAME, argument, ensure
from skblab.bench.functions.symbols import Symbols, require_same

__all__ = [
    "LAYOUT",
    "NAME",
    "UNKNOWN",
    "USER",
    "Chosen",
    "Section",
    "Symbols",
    "Touched",
    "argument",
    "ensure",
    "named",
    "parse",
    "require_same",
]
