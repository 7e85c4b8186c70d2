# SPDX-License-Identifier: GPL-2.0-or-later
"""All pages that are made of the code, by their place in the tree."""

from __future__ import annotations

from skblab.knobs import page as knobs
from skblab.pages import commands, experiment, experiments, hosts, traffic, workloads

# Folders that hold nothing but such pages.
FOLDERS = (commands.FOLDER,)


def pages() -> dict[str, str]:
    """Return the text of each page."""
    return {
        knobs.FILE: knobs.page(),
        knobs.VALUES_FILE: knobs.values_page(),
        experiment.FILE: experiment.page(),
        experiments.FILE: experiments.page(),
        hosts.FILE: hosts.page(),
        traffic.FILE: traffic.page(),
        workloads.FILE: workloads.page(),
        **commands.pages(),
    }
