# SPDX-License-Identifier: GPL-2.0-or-later
"""What a command has run elsewhere: it takes from the store what is there, and submits the rest."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from skblab.jobs import artefacts, engine
from skblab.jobs.campaign import Place
from skblab.jobs.engine import Standing
from skblab.jobs.model import Campaign, Engine, Task
from skblab.jobs.packing import Packing
from skblab.jobs.store import Store
from skblab.jobs.submitter import Submitter
from skblab.lab.reporter import Reporter


@dataclass(frozen=True)
class Elsewhere:
    """Where tasks run: the store, who submits them, and the bounds of elements.

    `submitting` takes the MiB of a task and its campaign.
    """

    store: Store
    on: Engine
    submitting: Callable[[int, Place], AbstractContextManager[Submitter]]
    bounds: Packing

    def run(
        self, campaign: Campaign, tasks: Sequence[Task], reporter: Reporter, title: str, what: str
    ) -> Standing:
        """Have all tasks run that have no record; return how they stand in the end.

        Two of them may be the same. `title` is what they do, `what` they are to people.
        """
        store = self.store
        all_tasks = {task.key: task for task in tasks}
        recorded = store.recorded()
        left = [task for task in all_tasks.values() if task.key not in recorded]
        if left:
            needed = dict.fromkeys(
                (*campaign.artefacts, *(of for one in left for of in one.artefacts))
            )
            artefacts.pack(store, needed, reporter)
        common = campaign.model_copy(update={"on": self.on})
        place = Place.make(store, common, list(all_tasks.values()))
        reporter.say(
            f"campaign {place.id}: {len(all_tasks) - len(left)} of {len(all_tasks)} {what} are in "
            f"the store; see ./skblab jobs status {shlex.quote(str(store.path))}"
        )
        with self.submitting(common.memory, place) as submitter:
            return engine.run(place, submitter, reporter, self.bounds, title)
