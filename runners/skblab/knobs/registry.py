# SPDX-License-Identifier: GPL-2.0-or-later
"""Every knob by name: those of all modules of this package that have a FAMILY, and any sysctl.

A new knob is in one of these, or in a module of its own, and takes no other file. An experiment
file may bring more: those of its own commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from skblab import knobs
from skblab.knobs import anysysctl
from skblab.knobs.base import Family, Knob


def families() -> list[Family]:
    """Return the families of all modules by their places.

    TypeError for a FAMILY that is none, ValueError for two knobs of one name.
    """
    found: dict[str, Family] = {}
    for module in iter_modules(knobs.__path__):
        name = f"{knobs.__name__}.{module.name}"
        declared = getattr(import_module(name), "FAMILY", None)
        if isinstance(declared, Family):
            found[name] = declared
        elif declared is not None:
            raise TypeError(f"{name}: FAMILY is {declared!r}, expected a Family")
    owners: dict[str, str] = {}
    for name, family in found.items():
        for knob in family.knobs:
            if knob.name in owners:
                raise ValueError(f"{name}: {owners[knob.name]} has a knob {knob.name}, too")
            owners[knob.name] = name
    return sorted(found.values(), key=lambda family: family.place)


class Catalogue(dict[str, Knob]):
    """Knobs by name. Those of sysctls are found by their names, and are not in any list."""

    def __missing__(self, name: str) -> Knob:
        """Return the knob of a sysctl; KeyError for other names."""
        if found := anysysctl.named(name):
            return found
        raise KeyError(name)

    def find(self, name: str) -> Knob | None:
        """Return the knob of a name, if there is one."""
        return self[name] if name in self else anysysctl.named(name)

    def having(self, more: Mapping[str, Knob]) -> Catalogue:
        """Return these and others, which take the place of those of their names."""
        return Catalogue({**self, **more})


# There before they are filled: modules of the package import them, too.
KNOBS = Catalogue()
# Knobs that make anew what others set.
REMAKING: set[str] = set()
# Sets of knobs of the same thing.
ALIKE: list[frozenset[str]] = []
for family in families():
    KNOBS.update({knob.name: knob for knob in family.knobs})
    REMAKING.update(family.remaking)
    if family.alike:
        ALIKE.append(family.alike)
