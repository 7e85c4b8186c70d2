# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes with a run: how to check it and to make its page again, and how it is cited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from skblab.bundle.archive import SUMS
from skblab_analysis.formats.run import RunDocument

README, CITATION = "README.md", "CITATION.cff"
NOBODY = "whoever measured it"


def texts(run: RunDocument, name: str, commit: str, authors: Sequence[str]) -> Mapping[str, str]:
    """Return the texts by the names of their files; `commit` is skblab's, empty if not known."""
    return {
        README: readme(run, name, commit),
        CITATION: citation(run, name, authors),
    }


def readme(run: RunDocument, name: str, commit: str) -> str:
    """Return README.md."""
    environment = run.environment
    facts = {
        "measured": f"{run.started:%Y-%m-%d %H:%M} UTC",
        "state": run.state,
        "question": run.plan.question,
        "kernel": environment.kernel.release if environment else "",
        "host": environment.host.cpu if environment else "",
        "packed by": f"skblab at commit {commit}" if commit else "",
        "again": f"`{run.plan.again}`" if run.plan.again else "",
    }
    table = "".join(f"- {what}: {words}\n" for what, words in facts.items() if words)
    return f"""# {name}

A run of skblab, a laboratory for the Linux network stack.

{table}
`{name}/report/index.html` is its page, `{name}/run.json` says how it was measured, and the tables
beside it have a trial a row (Parquet; skblab's results-schema/ has the unit of every column). What
a sweep asked is in `experiment.toml` there, what kernels said in `logs`.

Check, in this folder, that nothing has changed:

    sha256sum --check --quiet {SUMS}

Make the page again, in a checkout of skblab:

    ./skblab report {name}
"""


def citation(run: RunDocument, name: str, authors: Sequence[str]) -> str:
    """Return CITATION.cff (Citation File Format 1.2.0), whose values are JSON, as YAML allows."""

    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    lines = [
        "cff-version: 1.2.0",
        "type: dataset",
        f"message: {quoted('If you use this run, please cite it.')}",
        f"title: {quoted(f'skblab run {name}: {run.plan.question or run.name}')}",
        f"date-released: {run.started:%Y-%m-%d}",
        "authors:",
        *(f"  - name: {quoted(author)}" for author in authors or (NOBODY,)),
    ]
    return "".join(f"{line}\n" for line in lines)
