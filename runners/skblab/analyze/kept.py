# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps the figures of files in a run folder of their own."""

from __future__ import annotations

import shlex
from pathlib import Path

from skblab.analyze.running import Asked
from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.formats.analyze import FILE, AnalyzeDocument
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder

NAME = "packets"


def keep(document: AnalyzeDocument, asked: Asked, reporter: Reporter) -> Path:
    """Write the run folder of the figures of files, and return it."""
    files = [str(Path(one.file).resolve()) for one in document.files]
    words = [*asked.words(), "--report", "--", *files]
    folder = RunFolder.create(
        paths.results(),
        NAME,
        Plan(
            experiment=NAME,
            question="What did these packets do?",
            seed=0,
            again=shlex.join(["./skblab", "analyze", *words]),
            parameters={f"file {number}": file for number, file in enumerate(files, 1)},
        ),
    )
    disk.write(folder.path / FILE, document.model_dump_json(indent=1) + "\n")
    return folder.finish(None, reporter.timings)
