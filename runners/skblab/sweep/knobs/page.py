# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/knobs.md, made of the knobs themselves (make schemas)."""

from __future__ import annotations

from skblab import paths
from skblab.sweep.knobs.registry import KNOBS

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/sweep/knobs/: change it there. -->
# Knobs

What an experiment file of [`skblab sweep`](sweep.md) can set. Each is read before it is set, and
before and after each trial, and put back at the end, whatever happens. What a machine cannot do
is said, and left out.

| knob | values | what it does |
| --- | --- | --- |
"""


def page() -> str:
    """Return the page."""
    rows = [
        f"| `{one.name}` | {one.check} | {one.sentence} |\n"
        for one in sorted(KNOBS.values(), key=lambda one: one.name)
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (paths.tree() / "docs" / "knobs.md").write_text(page())
