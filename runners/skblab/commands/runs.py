# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab runs` commands: many runs listed, packed into a store, and asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from skblab.commands.options import AsJson, echo
from skblab.lab import paths
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import EXIT_NO, SkblabError, UsageError, os_trouble
from skblab_analysis.base.words import counted, joined
from skblab_analysis.warehouse import history, listing, reading, shown, sql, store
from skblab_analysis.warehouse.history import Nothing, Series, Wanted, matches
from skblab_analysis.warehouse.listing import KINDS, Found, Looked, Unreadable

runs = typer.Typer(
    help="List many runs, keep their figures in one store, and see them over time.\n\n"
    "Example: `skblab runs list`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

# So many words are listed where one matches nothing.
LISTED = 12

Folders = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Run folders, or folders of run folders. Default: the results folder.",
        show_default=False,
    ),
]
Store = Annotated[Path, typer.Option("--store", metavar="STORE", help="A store that pack made.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print lines of comma-separated values.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print a table in Markdown.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Runs that began then or later, UTC: 2026-11-30."),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Runs that began on that day or earlier, UTC."),
]
NameWord = Annotated[
    str | None,
    typer.Option(metavar="WORD", help="Runs whose name begins so, or is like this: 'demo-*'."),
]
KernelWord = Annotated[
    str | None,
    typer.Option("--kernel", metavar="WORD", help="A kernel whose release begins so: 6.12."),
]
SettingWord = Annotated[
    str | None,
    typer.Option(metavar="WORD", help="A setting, or a side of a comparison: 'rp_filter*'."),
]


@runs.command("list")
def list_runs(
    folders: Folders = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help=f"What made the run: {', '.join(KINDS)}.",
            autocompletion=lambda: list(KINDS),
        ),
    ] = None,
    kernel: KernelWord = None,
    setting: SettingWord = None,
    since: Since = None,
    until: Until = None,
    name: NameWord = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List runs, the earliest first: when each began, what it is, and how it ended.

    A run whose process is not there any more is `cut off`: a sweep goes on by `skblab resume`. Of
    a word with `*` or `?` all that is like it is meant.

    Run folders that cannot be read are named at the end, each with the reason. Exit status 1:
    none could be read, or no run is as the options say.

    Example: `skblab runs list --kind sweep --since 2026-11-01`
    """
    _one_of({"--json": as_json, "--csv": as_csv})
    begin, end = _times(since, until)
    if kind is not None and kind not in KINDS:
        raise UsageError(f"--kind {kind}: expected one of {', '.join(KINDS)}")
    places = folders or [paths.results()]
    found = _look(places, folders is None or not folders)
    kept = [
        one
        for one in found.runs
        if (begin is None or one.row.started >= begin)
        and (end is None or one.row.started < end)
        and (kind is None or one.row.kind == kind)
        and (
            name is None or any(matches("run", name, word) for word in (one.row.run, one.row.name))
        )
        and _any("kernel", kernel, one.row.kernels.split(", "))
        and _any("setting", setting, one.settings)
    ]
    if as_json:
        echo(shown.listing(kept, found.unreadable))
    elif as_csv:
        typer.echo(shown.listing_csv(kept))
    elif kept:
        printer().print(shown.listed(kept).table())
    said = Reporter()
    if found.runs and not kept:
        said.say(f"none of {counted(len(found.runs), 'run')} in {_named(places)} is like that")
    elif not found.runs and not found.unreadable:
        said.say(f"no runs in {_named(places)}")
    _name(found.unreadable)
    if (found.runs and not kept) or (found.unreadable and not found.runs):
        raise typer.Exit(EXIT_NO)


@runs.command()
def pack(
    into: Annotated[
        Path, typer.Option("--into", metavar="STORE", help="A store, or a folder for a new one.")
    ],
    folders: Folders = None,
    as_json: AsJson = False,
) -> None:
    """Put the figures of runs into a store: a few Parquet files for a million rows.

    A store has the figures of settings, those of each block or boot, and those by function; not
    the trials themselves. The same run again changes nothing; one that has grown replaces what it
    was. What is in the store and not in these folders stays. An interrupted pack leaves the store
    as it was; a second one at the same time waits.

    Run folders that cannot be read are named at the end, each with the reason. Exit status 1:
    none could be read.

    Example: `skblab runs pack --into results/store`
    """
    places = folders or [paths.results()]
    found = _look(places, folders is None or not folders)
    reporter = Reporter()
    with reporter.bar("packing runs", max(1, len(found.runs))) as update:
        done = store.pack(
            into,
            found,
            lambda: reporter.say("waiting for another skblab that packs into this store"),
            update,
        )
    if as_json:
        echo(shown.packed(done))
    else:
        files = done.document.files
        parts = [
            f"{len(some)} {word}"
            for word, some in (
                ("added", done.added),
                ("replaced", done.replaced),
                ("unchanged", done.unchanged),
                ("kept, for the store has more of them", done.kept),
            )
            if some
        ]
        typer.echo(
            f"{into}: {counted(done.document.runs, 'run')} in {counted(len(files), 'file')}, "
            f"{sum(one.rows for one in files)} rows, "
            f"{sum(one.bytes for one in files) / 2**20:.1f} MiB; {', '.join(parts) or 'no runs'}"
        )
    _name(done.unreadable)
    if done.unreadable and not (done.added or done.replaced or done.unchanged or done.kept):
        raise typer.Exit(EXIT_NO)


@runs.command()
def figures(
    folders: Folders = None,
    from_store: Annotated[
        Path | None,
        typer.Option("--store", metavar="STORE", help="Read a store that pack made, not folders."),
    ] = None,
    measure: Annotated[
        str | None, typer.Option(metavar="WORD", help="Such as instructions or throughput.")
    ] = None,
    figure: Annotated[
        str | None, typer.Option(metavar="WORD", help="Such as path, busy or p99.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(metavar="WORD", help="Goal of a search, layer, or load.")
    ] = None,
    setting: SettingWord = None,
    kernel: KernelWord = None,
    workload: Annotated[
        str | None, typer.Option(metavar="WORD", help="Workload of compare: 'forward*'.")
    ] = None,
    traffic: Annotated[str | None, typer.Option(metavar="WORD", help="What was sent.")] = None,
    since: Since = None,
    until: Until = None,
    name: NameWord = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Print figures over time, each with the change from the run before and from the first.

    Figures are in one table if they have the same clock, and were measured at the same place in
    the same way; skblab says in what others differ. A difference in brackets is not significant,
    or its significance is not known.

    Exit status 1: no figure is as the options say, or no run could be read.

    Example: `skblab runs figures --measure instructions --figure path --setting baseline`
    """
    _one_of({"--json": as_json, "--csv": as_csv, "--markdown": as_markdown})
    if from_store is not None and folders:
        raise UsageError("--store has all that is read: name folders, or a store, not both")
    words = {
        "run": name,
        "measure": measure,
        "figure": figure,
        "part": part,
        "workload": workload,
        "setting": setting,
        "traffic": traffic,
        "kernel": kernel,
    }
    given = {column: word for column, word in words.items() if word is not None}
    wanted = Wanted(given, *_times(since, until))
    if from_store is not None:
        bad: list[Unreadable] = []
        series = history.of_store(from_store, wanted)
        where = str(from_store)
    else:
        places = folders or [paths.results()]
        series, bad = _read(_look(places, not folders), wanted)
        where = _named(places)
    found = [] if isinstance(series, Nothing) else series
    if as_json:
        echo(shown.figures(found, bad))
    elif as_csv:
        typer.echo(shown.figures_csv(found))
    elif as_markdown:
        typer.echo("\n\n".join("\n".join(_lines(one)) for one in found))
    else:
        _print(found)
    if isinstance(series, Nothing):
        Reporter().say(_nothing(series, where))
    elif not found:
        Reporter().say(f"no figures in {where} of that time")
    _name(bad)
    if not found:
        raise typer.Exit(EXIT_NO)


@runs.command()
def query(
    statement: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT; the store is only read.")
    ],
    in_store: Store,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Ask a store in SQL, as DuckDB has it.

    The views are runs, figures, blocks and functions; results-schema/store-columns.md has their
    columns. Rows with `clock` exact count instructions, those with wall are times: never add these
    up. Other files cannot be read, and nothing is written.

    Example: `skblab runs query --store results/store "FROM runs SELECT run, kind, trials"`
    """
    _one_of({"--json": as_json, "--csv": as_csv})
    found = sql.query(in_store, statement)
    if as_json:
        echo(shown.answered(found))
    elif as_csv:
        typer.echo(shown.as_csv(found.columns, found.rows))
    else:
        _printed(shown.answer_table(found))


def _look(places: Sequence[Path], default: bool) -> Found:
    """Look at folders; the results folder need not be there before the first run."""
    if default and not places[0].exists():
        return Found((), ())
    return listing.look(places)


def _read(found: Found, wanted: Wanted) -> tuple[list[Series] | Nothing, list[Unreadable]]:
    """Return the series of run folders, and the folders that cannot be read."""
    rows, bad = [], list(found.unreadable)
    for looked in listing.best(found.runs):
        # Reading a large run takes a while: one that cannot be meant is left out before.
        if not _may_be(looked, wanted):
            continue
        try:
            rows.append(reading.gather(looked))
        except SkblabError as error:
            bad.append(Unreadable(looked.folder, str(error)))
        except OSError as error:
            bad.append(Unreadable(looked.folder, os_trouble(error)))
    figures = [row for one in rows for row in one.figures]
    blocks = [row for one in rows for row in one.blocks]
    return history.of_rows(figures, blocks, wanted), bad


def _may_be(looked: Looked, wanted: Wanted) -> bool:
    return (wanted.since is None or looked.row.started >= wanted.since) and (
        wanted.until is None or looked.row.started < wanted.until
    )


def _print(found: Sequence[Series]) -> None:
    for place, one in enumerate(found):
        if place:
            typer.echo()
        said = shown.over_time(one)
        for line in (said.title, *_apart(one)):
            printer().print(line, markup=False, soft_wrap=True)
        _printed(said.table())


def _lines(series: Series) -> list[str]:
    return [*(f"{line}\n" for line in _apart(series)), *shown.over_time(series).markdown()]


def _apart(series: Series) -> list[str]:
    if not series.apart:
        return []
    return [f"Not compared with the table before: {'; '.join(series.apart)}."]


def _printed(table: Table) -> None:
    console: Console = printer()
    console.print(table)


def _nothing(found: Nothing, where: str) -> str:
    there = [word or "(none)" for word in found.there]
    more = len(there) - LISTED
    listed = [*there[:LISTED], *([f"{more} more"] if more > 0 else [])]
    column = "name" if found.column == "run" else found.column
    if not there:
        return f"no figures in {where} that --{column} {found.word} could be of"
    return f"--{column} {found.word}: nothing in {where} is like that; there is {joined(listed)}"


def _any(column: str, word: str | None, values: Iterable[str]) -> bool:
    return word is None or any(matches(column, word, value) for value in values)


def _times(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    begin = None if since is None else _time("--since", since)[0]
    end, day = (None, False) if until is None else _time("--until", until)
    # All of a day is meant.
    try:
        return begin, end + timedelta(days=1) if end is not None and day else end
    except OverflowError:
        return begin, None


def _time(option: str, text: str) -> tuple[datetime, bool]:
    """Return a time in UTC without its zone, and whether it is a whole day."""
    try:
        found = datetime.fromisoformat(text)
        plain = found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text}: expected a date, 2026-11-30, or a time of it, 2026-11-30T18:00"
        ) from None
    return plain, len(text) <= len("2026-11-30")


def _one_of(asked: dict[str, bool]) -> None:
    given = [option for option, wanted in asked.items() if wanted]
    if len(given) > 1:
        raise UsageError(f"{joined(given)}: expected one of them")


def _named(places: Sequence[Path]) -> str:
    return joined([str(place) for place in places[:3]] + (["others"] if places[3:] else []))


def _name(bad: Iterable[Unreadable]) -> None:
    for one in bad:
        Reporter().say(f"cannot be read: {one.folder}: {one.why}")
