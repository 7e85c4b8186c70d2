# SPDX-License-Identifier: GPL-2.0-or-later
"""Store what tests took: `make durations FROM=FILE`, with outcomes of `make test-all` or others."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tiers import outcomes, schedule


def merged(
    known: dict[str, schedule.Duration], rows: dict[str, outcomes.Outcome]
) -> dict[str, schedule.Duration]:
    """Return known durations with those of outcomes in their places.

    Quick tests without a guest are not kept; what took long at full scale only is kept apart.
    """
    found = dict(known)
    for name, row in rows.items():
        if row.result != "passed" or not (row.boots or row.seconds >= 1):
            continue
        before = found.get(name, schedule.Duration(row.seconds, row.boots, row.slow))
        found[name] = (
            replace(before, full_seconds=row.seconds, slow=row.slow)
            if row.full
            else replace(
                before, seconds=row.seconds, boots=row.boots, slow=row.slow, estimated=False
            )
        )
    return found


def main() -> None:
    """Take in the files of outcomes that are named."""
    if len(sys.argv) < 2:
        sys.exit("durations: name a file of outcomes: make durations FROM=FILE")
    durations = schedule.read()
    for name in sys.argv[1:]:
        durations = merged(durations, outcomes.table(Path(name)))
    schedule.write(durations)
    print(f"{len(durations)} durations are in {schedule.FILE}")  # noqa: T201


if __name__ == "__main__":
    main()
