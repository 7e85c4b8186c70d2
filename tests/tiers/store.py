# SPDX-License-Identifier: GPL-2.0-or-later
"""Store what tests took: `make durations FROM=FILE`, with outcomes of `make test-all` or others.

With COMMIT=N the outcomes are of `make test-all` in the commit of that number, and the slow tests
that passed are stored as passed in it: `make test-all SINCE=N` does not run them again. BUSY=yes
keeps the seconds that are known.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from tiers import outcomes, schedule


def merged(
    known: dict[str, schedule.Duration],
    rows: dict[str, outcomes.Outcome],
    commit: int | None = None,
    *,
    busy: bool = False,
) -> dict[str, schedule.Duration]:
    """Return known durations with those of outcomes in their places.

    Quick tests without a guest are not kept; what took long at full scale only is kept apart.
    `commit` is the number of the one in which slow tests have passed at full scale, if they have.
    On a `busy` machine they took longer than they do: what is known of that stays.
    """
    found = dict(known)
    for name, row in rows.items():
        if commit is not None and row.result == "failed" and name in found:
            found[name] = replace(found[name], whole_at=None)
        if row.result != "passed" or not (row.boots or row.seconds >= 1):
            continue
        if busy and name not in found:
            continue
        before = found.get(name, schedule.Duration(row.seconds, row.boots, row.slow))
        if row.full and not busy:
            found[name] = replace(before, full_seconds=row.seconds, slow=row.slow)
        elif not busy:
            found[name] = replace(
                before, seconds=row.seconds, boots=row.boots, slow=row.slow, estimated=False
            )
        # Of one that has a full scale, a small part is not the whole.
        if row.slow and commit is not None and (row.full or before.full_seconds is None):
            found[name] = replace(found[name], whole_at=commit)
    return found


def main() -> None:
    """Take in the files of outcomes that are named."""
    parser = argparse.ArgumentParser(prog="make durations", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FROM=FILE")
    parser.add_argument("--commit", type=int, metavar="N", help="all are of make test-all in it")
    parser.add_argument("--busy", action="store_true", help="the machine was: keep the seconds")
    asked = parser.parse_args()
    durations = schedule.read()
    for file in asked.files:
        durations = merged(durations, outcomes.table(file), asked.commit, busy=asked.busy)
    schedule.write(durations)
    print(f"{len(durations)} durations are in {schedule.FILE}")  # noqa: T201


if __name__ == "__main__":
    main()
