# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab cache` commands: what the cache holds, and removing what nobody needs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skblab.commands.documents import CacheEntry, CacheListing, CachePruned
from skblab.commands.options import AsJson
from skblab.lab import paths
from skblab.lab.cache import choice, keep, sizes
from skblab.lab.cache.entries import Entry, total
from skblab.lab.cache.kinds import KERNELS, PACKAGES, ROOTS, SOURCES, Goes
from skblab.lab.reporter import printer
from skblab_analysis.base.errors import EXIT_NO, UsageError

cache = typer.Typer(
    help="List what the cache holds, and remove what is not needed any more.\n\n"
    "Example: `skblab cache list`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

# Of these kinds each entry has a row of its own; the others are many and small.
SHOWN_EACH = (ROOTS, KERNELS, SOURCES, PACKAGES)
NEEDED = {True: "yes", False: "no", None: "unknown"}


@cache.command("list")
def list_entries(as_json: AsJson = False) -> None:
    """List what the cache holds: size, last use, and whether this checkout needs it.

    Example: `skblab cache list`
    """
    bound, found = sizes.bound(), keep.look()
    if as_json:
        listing = CacheListing(
            cache=paths.cache(),
            bytes=total(found),
            bound_bytes=bound,
            entries=tuple(_rows(found)),
        )
        typer.echo(listing.model_dump_json(indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("kind", "size", "last used", "needed", "key"):
        table.add_column(title, no_wrap=True, justify="right" if title == "size" else "left")
    table.add_column("what", overflow="fold")
    for kind, some in groupby(found, key=lambda entry: entry.kind):
        for cells in _cells(kind, list(some)):
            table.add_row(*cells)
    printer().print(table)
    typer.echo(
        f"{sizes.words(total(found))} of at most {sizes.words(bound)} ({sizes.VARIABLE}), "
        f"at {paths.cache()}"
    )


@cache.command()
def prune(
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Remove what was not used for so many days."),
    ] = None,
    keeping: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="WORD", help="Keep this kind, this key, or names with this word."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed; remove nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what this checkout does not need; it is built again when it is.

    That includes lab roots and kernels that only other checkouts need, and kernels of your own
    trees: name what to keep with --keep. With --older-than it removes only what was not used for
    so long, and then also logs and stored results. What is in use, was used in the last ten
    minutes, is needed by this checkout, or puts settings back on hosts is always kept.

    Exit status 1: something could not be deleted. A line says what, and why.

    Example: `skblab cache prune --older-than 7 --dry-run`
    """
    _require_words(keeping or [])
    chosen = choice.unwanted(keep.look(), time.time(), older_than, keeping or [])
    removed = keep.Removed(tuple(chosen), (), ()) if dry_run else keep.remove(chosen)
    gone = removed.gone
    if as_json:
        pruned = CachePruned(dry_run=dry_run, bytes=total(gone), removed=tuple(_rows(gone)))
        typer.echo(pruned.model_dump_json(indent=1))
    else:
        for entry in gone:
            typer.echo(f"{entry.kind}/{entry.key}  {sizes.words(entry.size)}  {entry.name}")
        if gone:
            typer.echo(f"{'would remove' if dry_run else 'removed'}: {keep.summary(gone)}")
        elif not chosen:
            typer.echo("nothing to remove: what is there is needed, in use, or newer")
    for sentence in (*removed.kept, *removed.failed):
        typer.echo(sentence, err=True)
    if removed.failed:
        raise typer.Exit(EXIT_NO)


def _require_words(words: Iterable[str]) -> None:
    # It would be in every name.
    if any(not word.strip() for word in words):
        raise UsageError("--keep '': expected a kind, a key or a word of a name")


def _rows(entries: Iterable[Entry]) -> list[CacheEntry]:
    return [
        CacheEntry(
            kind=entry.kind,
            key=entry.key,
            name=entry.name,
            path=entry.path,
            bytes=entry.size,
            used=datetime.fromtimestamp(entry.used, UTC),
            in_use=entry.busy,
            needed=entry.needed,
        )
        for entry in entries
    ]


def _cells(kind: str, entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """Return the rows of a kind: one for each entry, or one for all."""
    if kind in SHOWN_EACH or len(entries) == 1:
        newest = sorted(entries, key=lambda entry: entry.used, reverse=True)
        return [
            (
                kind,
                sizes.words(entry.size),
                _when(entry),
                _need(entry.busy, entry.needed, entry.goes),
                escape(entry.key),
                escape(entry.name),
            )
            for entry in newest
        ]
    busy = any(entry.busy for entry in entries)
    needs = {entry.needed for entry in entries}
    last = max(entries, key=lambda entry: entry.used)
    needed = True if True in needs else False if needs == {False} else None
    state, size = _need(busy, needed, last.goes), sizes.words(total(entries))
    name = last.name.partition(":")[0]
    return [(kind, size, _when(last), state, "", f"{len(entries)} × {name}")]


def _need(busy: bool, needed: bool | None, goes: Goes) -> str:
    return "in use" if busy else "always kept" if goes == "never" else NEEDED[needed]


def _when(entry: Entry) -> str:
    return f"{datetime.fromtimestamp(entry.used, UTC):%Y-%m-%d %H:%M}"
