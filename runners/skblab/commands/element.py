# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab element`: what a node runs of a campaign; not for users."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from skblab.jobs.campaign import Place
from skblab.jobs.element import Element, Kinds, Run, nothing
from skblab.jobs.model import Campaign
from skblab.jobs.store import Store
from skblab.lab.reporter import Reporter


def _compare(campaign: Campaign, reporter: Reporter) -> AbstractContextManager[Run]:
    # Ten thousand elements of others start sooner without it.
    from skblab.compare.remote import begin

    return begin(campaign, reporter)


def _sweep(campaign: Campaign, reporter: Reporter) -> AbstractContextManager[Run]:
    from skblab.sweep.remote import begin

    return begin(campaign, reporter)


KINDS: Kinds = {"nothing": nothing, "compare": _compare, "sweep": _sweep}


def element(
    store: Annotated[Path, typer.Argument(help="The shared folder.")],
    campaign: Annotated[str, typer.Argument(help="The campaign's name.")],
    array: Annotated[int, typer.Argument(help="Number of the array, from 1.")],
    index: Annotated[int, typer.Argument(help="Number of the element, from 0.")],
) -> None:
    """Run an element of a campaign's array: a node does, for `--on slurm` and `--on local`.

    Example: `skblab element /shared/store 0123456789abcdef 1 0`
    """
    place = Place(Store.open(store), campaign)
    Element(place, array, index, KINDS).run(Reporter())
