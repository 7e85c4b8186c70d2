# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/experiments.md: the experiments that come with skblab."""

from __future__ import annotations

from skblab.lab import paths
from skblab.pages.keys import cell
from skblab.sweep.experiment import read
from skblab.sweep.request import SHIPPED
from skblab.testbeds import KINDS

FILE = "docs/reference/experiments.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/experiments/: change it there. -->
# Experiments that come with skblab

Give `skblab sweep` one of these names instead of a file. `--dry-run` prints how long it takes,
and what a testbed cannot do of it.

    ./skblab sweep quick --dry-run

| experiment | question | settings | testbeds |
| --- | --- | --- | --- |
"""


def page() -> str:
    """Return the page."""
    rows = []
    for file in sorted(SHIPPED.glob("*.toml")):
        experiment = read(file)
        able = " ".join(f"`{kind.name}`" for kind in KINDS.values() if not kind.unable(experiment))
        link = f"[`{file.stem}`](../../{file.relative_to(paths.tree())})"
        settings = len(experiment.settings())
        rows.append(f"| {link} | {cell(experiment.question)} | {settings} | {able} |\n")
    return HEAD + "".join(rows)
