# SPDX-License-Identifier: GPL-2.0-or-later
"""Every knob by name: those of all modules of this package that have a FAMILY.

A new knob is in one of these, or in a module of its own, and takes no other file.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from skblab import knobs
from skblab.knobs.base import Family, Knob


def families() -> list[Family]:
    """Return the families of all modules by their places."""
    names = [f"{knobs.__name__}.{module.name}" for module in iter_modules(knobs.__path__)]
    declared = [getattr(import_module(name), "FAMILY", None) for name in names]
    found = [family for family in declared if isinstance(family, Family)]
    return sorted(found, key=lambda family: family.place)


# There before they are filled: modules of the package import them, too.
KNOBS: dict[str, Knob] = {}
# Knobs that make anew what others set.
REMAKING: set[str] = set()
for family in families():
    KNOBS.update({knob.name: knob for knob in family.knobs})
    REMAKING.update(family.remaking)
