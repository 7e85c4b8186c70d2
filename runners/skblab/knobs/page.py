# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/knobs.md, made of the knobs themselves (make schemas)."""

from __future__ import annotations

from skblab.knobs.base import Knob
from skblab.knobs.registry import KNOBS
from skblab.lab import paths

FILE = "docs/reference/knobs.md"

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/knobs/: change it there. -->
# Knobs

What an experiment file of [`skblab sweep`](../explain/sweep.md) can set. Each is read before it is set, and
before and after each trial, and put back at the end, whatever happens. What a machine cannot do
is said, and skipped.

Those of a boot are set by booting the guest anew, with another kernel or other kernel arguments;
settings that have the same share a boot. On a machine that cannot be booted they are only compared.

| knob | values | what it does | needs |
| --- | --- | --- | --- |
"""


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def _needs(knob: Knob) -> str:
    return ", ".join(filter(None, ["a boot" if knob.boot else "", knob.needs]))


def page() -> str:
    """Return the page."""
    rows = [
        f"| `{knob.name}` | {_cell(knob.check)} | {knob.sentence} | {_needs(knob)} |\n"
        for knob in sorted(KNOBS.values(), key=lambda knob: knob.name)
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (paths.tree() / FILE).write_text(page())
