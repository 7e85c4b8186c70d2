# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/knobs.md and knob-values.md, made of the knobs themselves (make schemas)."""

from __future__ import annotations

from skblab.knobs.base import DEVICE, Knob
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import literal

FILE = "docs/reference/knobs.md"
VALUES_FILE = "docs/reference/knob-values.md"

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/knobs/: change it there. -->
# Knobs

A knob is what an [experiment file](experiment.md) can set. skblab reads each knob before it sets
it, reads it again before and after each trial, and puts it back at the end, whatever happens. A
setting that a machine cannot have is skipped, with the reason.

    [baseline]
    rp_filter = 0

Knobs that need a boot are set by booting the guest anew, with another kernel or other kernel
arguments; settings that have the same share a boot. skblab never reboots your hosts: there it
only checks them.

What none of them sets is set as [any sysctl, or by commands of your
own](own-settings.md).

[Values](knob-values.md) has each form of each value, and what sets it by hand.

| knob | values | what it does | needs |
| --- | --- | --- | --- |
"""
VALUES_HEAD = f"""<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/knobs/: change it there. -->
# What sets a value by hand

Each form that a value of a [knob](knobs.md) can have, with an example and the commands that set it.
Names in capitals stand for what a machine has: {DEVICE} is each network device of the router in
turn.

    ./skblab sweep first --dry-run     # the same for the values of an experiment

| knob | value | by hand |
| --- | --- | --- |
"""


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def _needs(knob: Knob) -> str:
    return ", ".join(filter(None, ["a boot" if knob.boot else "", knob.needs]))


def page() -> str:
    """Return the page of knobs."""
    rows = [
        f"| `{knob.name}` | {_cell(knob.check)} | {knob.sentence} | {_needs(knob)} |\n"
        for knob in _knobs()
    ]
    return HEAD + "".join(rows)


def values_page() -> str:
    """Return the page of values."""
    return VALUES_HEAD + "".join(map(_values, _knobs()))


def _knobs() -> list[Knob]:
    return sorted(KNOBS.values(), key=lambda knob: knob.name)


def _values(knob: Knob) -> str:
    """Return a row for each form of a knob's values."""
    found = ""
    for form in knob.check.forms:
        value = literal(form.example)
        words = f" ({form.words})" if form.words else ""
        hand = _cell(knob.by_hand(form.example))
        found += f"| `{knob.name}` | `{value}`{_cell(words)} | `{hand}` |\n"
    return found
