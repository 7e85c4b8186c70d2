# SPDX-License-Identifier: GPL-2.0-or-later
"""Removing entries of the cache, and keeping its bound."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from skblab.lab import paths, store
from skblab.lab.cache import choice, sizes
from skblab.lab.cache.entries import Entry, entries, total
from skblab.lab.cache.kinds import KINDS
from skblab.lab.cache.needed import needed
from skblab.lab.reporter import Reporter


def look() -> list[Entry]:
    """Return all entries, after what killed builds and removals left was removed."""
    for kind in KINDS.values():
        # What is behind a link is of another cache, whose locks are there.
        if not kind.single and not (paths.cache() / kind.folder).is_symlink():
            store.sweep(kind.folder)
    return entries(needed())


def remove(chosen: Sequence[Entry]) -> list[Entry]:
    """Remove entries; return those that are gone. What somebody began to use meanwhile stays."""
    return [entry for entry in chosen if _remove(entry)]


def _remove(entry: Entry) -> bool:
    if entry.lock is None:
        return store.discard(entry.kind, entry.key)
    with store.held(entry.lock) if entry.lock else contextlib.nullcontext(True) as free:
        if not free:
            return False
        gone = store.put_away(entry.path)
    store.remove(gone, quiet=True)
    return True


def keep_bound(reporter: Reporter) -> None:
    """Remove what was used least lately until the cache takes no more than its bound."""
    bound, found = sizes.bound(), look()
    gone = remove(choice.beyond(found, bound, time.time()))
    left, words = total(found) - total(gone), sizes.words
    if gone:
        reporter.say(f"removed from the cache to keep its bound of {words(bound)}: {summary(gone)}")
    if left > bound:
        reporter.say(
            f"the cache takes {words(left)}, more than its bound of {words(bound)}: the rest is in "
            f"use or needed; see skblab cache list, or set {sizes.VARIABLE}"
        )


def summary(gone: Sequence[Entry]) -> str:
    """Return what these are in a few words: how many of each kind, and what they take."""
    counts: dict[str, int] = {}
    for entry in gone:
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
    kinds = ", ".join(f"{count} of {kind}" for kind, count in counts.items())
    return f"{kinds}; {sizes.words(total(gone))}"
