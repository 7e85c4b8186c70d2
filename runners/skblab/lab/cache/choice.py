# SPDX-License-Identifier: GPL-2.0-or-later
"""Which entries of the cache go: those that nobody will miss, the least recently used first."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from skblab.lab.cache.entries import Entry, total

DAY_SECONDS = 86_400
# What was used so lately is just made, or its user is about to come back.
JUST_SECONDS = 600


def beyond(entries: Collection[Entry], bound: int, now: float) -> list[Entry]:
    """Return what goes so that the rest takes no more than `bound` bytes, and no more than that.

    What is in use, needed by this checkout or used just now stays, even if the rest is too much.
    """
    over = total(entries) - bound
    chosen: list[Entry] = []
    free = (entry for entry in entries if entry.goes == "always" and _may_go(entry, now))
    for entry in sorted(free, key=lambda entry: entry.used):
        if over <= 0:
            break
        chosen.append(entry)
        over -= entry.size
    # A large one may have made room enough for smaller ones before it.
    for entry in sorted(chosen, key=lambda entry: entry.used, reverse=True):
        if over + entry.size <= 0:
            chosen.remove(entry)
            over += entry.size
    return chosen


def unwanted(
    entries: Iterable[Entry], now: float, days: float | None, keep: Collection[str]
) -> list[Entry]:
    """Return what a user asks to have removed.

    Without `days`, what this checkout surely does not need; with it, also what it may not need, if
    it was not used for so many days. `keep` names kinds, keys, or words of a name that stay.
    """
    return [
        entry
        for entry in entries
        if entry.goes != "never"
        and _may_go(entry, now)
        and not _kept(entry, keep)
        and (
            now - entry.used >= days * DAY_SECONDS
            if days is not None
            else entry.needed is False and entry.goes == "always"
        )
    ]


def _may_go(entry: Entry, now: float) -> bool:
    return not entry.busy and not entry.needed and now - entry.used >= JUST_SECONDS


def _kept(entry: Entry, keep: Collection[str]) -> bool:
    return any(word in (entry.kind, entry.key) or word in entry.name for word in keep)
