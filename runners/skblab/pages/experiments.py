# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/experiments.md: the experiments that come with skblab."""

from __future__ import annotations

from skblab.pages.keys import cell
from skblab.sweep.shipped import shipped
from skblab_analysis.base.words import ABSENT, rough_time

FILE = "docs/reference/experiments.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/experiments/: change it there. -->
# Experiments that come with skblab

Give `skblab sweep` one of these names instead of a file. `skblab sweep` alone prints this list.
`--dry-run` prints the plan, and what a testbed cannot do of it.

    ./skblab sweep first --exact      # three settings, in two minutes
    ./skblab sweep quick --dry-run

Times are estimates, those of `--exact` on two CPUs, without the kernel that the first run builds.

| experiment | question | settings | `--exact` | wall clock | testbeds |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """Return the page."""
    rows = []
    for experiment in shipped():
        able = " ".join(f"`{name}`" for name in experiment.testbeds)
        link = f"[`{experiment.name}`](../../runners/experiments/{experiment.name}.toml)"
        exact = ABSENT if experiment.exact is None else rough_time(experiment.exact)
        cells = [link, cell(experiment.question), str(experiment.settings), exact]
        rows.append(f"| {' | '.join([*cells, rough_time(experiment.timed), able])} |\n")
    return HEAD + "".join(rows)
