# SPDX-License-Identifier: GPL-2.0-or-later
"""Removing entries of the cache, and keeping its bound."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from skblab.lab import paths, store
from skblab.lab.cache import choice, sizes
from skblab.lab.cache.entries import Entry, entries, total
from skblab.lab.cache.kinds import KINDS
from skblab.lab.cache.needed import needed
from skblab.lab.reporter import Reporter


def look() -> list[Entry]:
    """Return all entries, after what killed builds and removals left was removed."""
    for kind in KINDS.values():
        # What is behind a link belongs to another cache, whose locks are there.
        if not kind.single and not (paths.cache() / kind.folder).is_symlink():
            store.sweep(kind.folder)
    return entries(needed())


@dataclass(frozen=True)
class Removed:
    """What became of entries that were to be removed: those that are gone, and the others.

    `kept` has a sentence for each one that somebody began to use meanwhile, `failed` for each one
    that could not be deleted, or not wholly.
    """

    gone: tuple[Entry, ...]
    kept: tuple[str, ...]
    failed: tuple[str, ...]


def remove(chosen: Sequence[Entry]) -> Removed:
    """Remove entries."""
    gone: list[Entry] = []
    kept: list[str] = []
    failed: list[str] = []
    for entry in chosen:
        why = _remove(entry)
        if why is None:
            gone.append(entry)
        elif why == store.IN_USE:
            kept.append(f"kept {entry.kind}/{entry.key}: {why}")
        else:
            failed.append(why)
    return Removed(tuple(gone), tuple(kept), tuple(failed))


def _remove(entry: Entry) -> str | None:
    """Remove an entry; return why it is still there, as `store.discard` does."""
    if entry.lock is None:
        return store.discard(entry.kind, entry.key)
    with store.held(entry.lock) if entry.lock else contextlib.nullcontext(True) as free:
        return store.throw_away(entry.path) if free else store.IN_USE


def keep_bound(reporter: Reporter) -> None:
    """Remove what was used least lately until the cache takes no more than its bound."""
    bound, found = sizes.bound(), look()
    removed = remove(choice.beyond(found, bound, time.time()))
    gone = removed.gone
    left, words = total(found) - total(gone), sizes.words
    for sentence in removed.failed:
        reporter.say(sentence)
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
