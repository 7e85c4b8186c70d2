# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/experiment.md: the keys of an experiment file."""

from __future__ import annotations

from pydantic import BaseModel

from skblab.pages.keys import cell, table
from skblab.sweep.experiment import Experiment, Repeats, Setting, Study
from skblab.sweep.measures import MEASURES, PARTS
from skblab.testbeds.asked import Needs, Traffic

FILE = "docs/reference/experiment.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/: change the models there. -->
# The experiment file

An experiment file says which settings `skblab sweep` compares, with which traffic, what it
measures and how often. This one takes two minutes:

    cat > my-settings.toml <<'END'
    name = "my-settings"
    question = "What does a firewall cost?"

    [baseline]                 # what the others are compared with
    rp_filter = 0
    netfilter = "none"

    [[setting]]                # the baseline, but for
    name = "a hundred rules"
    knobs = { netfilter = "nft-forward 100" }

    [measure.throughput]       # what is measured without --exact

    [repeats]
    least = 2                  # blocks, in fresh boots
    most = 2
    budget_minutes = 60        # no block is begun that would end after this
    END
    ./skblab sweep my-settings.toml --exact --packets 5000 --dry-run
    ./skblab sweep my-settings.toml --exact --packets 5000

skblab checks the file before it starts and names the line of each error. Then it says what
cannot be measured here. [What a sweep does](../explain/sweep.md) explains it; [knobs](knobs.md)
has what you can set; [experiments](experiments.md) come with skblab.
"""
COMBINATIONS = """
### Combinations

    [matrix]                   # every combination of these
    rp_filter = [0, 1]
    threaded = [false, true]

`pair = [["rp_filter", "threaded"]]` makes knobs of the matrix go through their values together.
`exclude = [{ rp_filter = 1, threaded = true }]` leaves combinations out.
"""
OWN = """
Sysctls, commands of yours and rules of nft stand wherever a knob does: [what no knob
sets](own-settings.md).
"""
TABLES = ("needs", "traffic", "study", "setting", "measure", "repeats")


def page() -> str:
    """Return the page."""
    parts = [
        HEAD,
        "\n## Keys before the tables\n\n",
        table(Experiment, without=TABLES),
        COMBINATIONS,
        OWN,
        *(_section(f"[{name}]", model) for name, model in (("traffic", Traffic), ("needs", Needs))),
        _section("[study]", Study),
        _section("[[setting]]", Setting),
        "\n## Measures\n\nWithout `--exact` the file has at least one `[measure.NAME]`, of\n"
        f"{', '.join(f'`{measure.name}`' for measure in MEASURES)}.\n",
        *(_section(f"[measure.{part.name}]", part.section) for part in PARTS),
        _section("[repeats]", Repeats),
    ]
    return "".join(parts)


def _section(name: str, model: type[BaseModel]) -> str:
    sentence = (model.__doc__ or "").partition("\n\n")[0]
    return f"\n### `{name}`\n\n{cell(sentence)}\n\n{table(model)}"
