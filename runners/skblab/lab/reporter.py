# SPDX-License-Identifier: GPL-2.0-or-later
"""What the user sees while work goes on: sentences, steps with their time, progress bars.

Everything here goes to standard error; standard output is kept for results.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

BAR_WIDTH = 20
# In a plain log a bar is a line at each of these shares.
PLAIN_STEPS = 10

# Columns of a file or a pipe, which has no width of its own: folded words are hard to find.
FILE_WIDTH = 200


def printer() -> Console:
    """Return what prints results to standard output."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    return console


class Update(Protocol):
    """What a block calls to have its bar move."""

    def __call__(self, done: float, note: str = "", total: float | None = None) -> None:
        """Show that this much is done; a note stands beside the title.

        `total` is what there is to do from now on; None: as before.
        """


@dataclass
class Reporter:
    """Tells the user what happens; `timings` keeps each step's seconds in order."""

    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    quiet: bool = False
    timings: dict[str, float] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Print one sentence."""
        if not self.quiet:
            self.console.print(escape(text), soft_wrap=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step in wall seconds; nested or repeated names add up."""
        start = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - start
            self.timings[name] = self.timings.get(name, 0.0) + spent

    @contextlib.contextmanager
    def bar(self, title: str, total: float) -> Iterator[Update]:
        """Show a progress bar with an estimate; the block calls `set(done)` with 0 … total."""
        if self.quiet:
            yield lambda done, note="", total=None: None
        elif self.console.is_terminal:
            with Progress(
                # What it has no room for is cut off, and not the times.
                TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1)),
                BarColumn(bar_width=BAR_WIDTH),
                TextColumn("{task.percentage:3.0f} %"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
                expand=True,
            ) as progress:
                task = progress.add_task(escape(title), total=total)
                of = total

                def update(done: float, note: str = "", total: float | None = None) -> None:
                    nonlocal of
                    of = of if total is None else total
                    words = escape(_with(title, note))
                    progress.update(task, completed=min(done, of), total=of, description=words)

                yield update
        else:
            yield self._plain_bar(title, total)

    def _plain_bar(self, title: str, total: float) -> Update:
        start = time.monotonic()
        shown, of = 0, total

        def update(done: float, note: str = "", total: float | None = None) -> None:
            nonlocal shown, of
            of = of if total is None else total
            tenth = int(PLAIN_STEPS * min(done, of) / of) if of > 0 else PLAIN_STEPS
            if tenth > shown:
                shown = tenth
                spent = time.monotonic() - start
                left = spent * (PLAIN_STEPS - tenth) / tenth
                share = 100 * tenth // PLAIN_STEPS
                said = f"{title}: {share} % after {spent:.0f} s, about {left:.0f} s left"
                self.say(_with(said, note))

        return update


def _with(text: str, note: str) -> str:
    return f"{text}; {note}" if note else text
