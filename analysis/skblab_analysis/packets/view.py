# SPDX-License-Identifier: GPL-2.0-or-later
"""What single packets did: tables, the page's section and its pictures, sentences.

A run that was made by `skblab analyze --report` has it, and no trial: figures are of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from skblab_analysis.base import labels
from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.checked import read
from skblab_analysis.base.pictures import COLOURS, Picture
from skblab_analysis.base.words import (
    ABSENT,
    NARROW_SPACE,
    counted,
    joined,
    number,
    quantity,
    seconds,
    share,
)
from skblab_analysis.formats.analyze import FILE, AnalyzeDocument, FileFigures, Late
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run, once
from skblab_analysis.packets import curves, tables, timeline
from skblab_analysis.view import Cells, Section, View, suffix

MEASURE = "packets"
BY_FILE = "packets-anomalies"
# Files that have pictures over time of their own: a page is no atlas.
DRAWN = len(COLOURS)
# Files that have a bar: those with the most anomalies.
MOST_BARS = 40
SECONDS_A_DAY = 86_400
COLUMNS = ("packets", "duration", "lost", "reordered", "mean", "median", "p99", "p99.9", "max")
LATE_COLUMNS = ("anomalies", "a day", "late packets in these", "of all", "longest", "open")


@once
def load(run: Run) -> tuple[FileFigures, ...]:
    """Return the figures of the files of a run, none of one without; RecordError if broken."""
    path = run.folder / FILE
    return read(AnalyzeDocument, path, "the figures of packets").files if path.exists() else ()


def names(files: Sequence[FileFigures]) -> list[str]:
    """Return what files are called: by their names alone, where these tell them apart."""
    short = [Path(one.file).name for one in files]
    found = short if len(set(short)) == len(short) else [one.file for one in files]
    # Some may be given twice.
    return [
        f"{name} ({place})" if found.count(name) > 1 else name
        for place, name in enumerate(found, 1)
    ]


def kinds(one: FileFigures) -> dict[str, Late]:
    """Return the kinds of anomalies that a file was searched for, by their names."""
    return {timeline.limit_name(late): late for late in one.late or ()}


def a_day(late: Late, took: float) -> float | None:
    """Return how many anomalies a day would have; None without a time.

    Of a file that is one anomaly from begin to end that is not known, either.
    """
    whole = late.count == 1 and late.open_begin and late.open_end
    return late.count / took * SECONDS_A_DAY if took > 0 and not whole else None


def _row(one: FileFigures) -> tuple[str, ...]:
    latency = one.latency_ns
    times = latency.percentiles if latency else {}
    return (
        _number(one.packets),
        quantity(one.seconds * timeline.NS_PER_S, "ns"),
        share(one.lost_share),
        share(one.reordered.share if one.reordered else None),
        quantity(latency.mean if latency else None, "ns"),
        *(quantity(times.get(name), "ns") for name in ("50", "99", "99.9")),
        quantity(latency.max if latency else None, "ns"),
    )


def _late_row(one: FileFigures, late: Late | None) -> tuple[str, ...]:
    if late is None:
        return (ABSENT,) * len(LATE_COLUMNS)
    daily = a_day(late, one.seconds)
    return (
        _number(late.count),
        _daily(daily),
        _number(late.packets),
        share(late.share),
        quantity(late.duration_ns.max, "ns"),
        tables.OPEN[late.open_begin, late.open_end],
    )


def _daily(daily: float | None) -> str:
    whole = daily is None or daily >= 10 or daily == round(daily)
    return _number(daily, 0 if whole else 1)


def _number(value: float | None, digits: int = 0) -> str:
    return number(value, digits, NARROW_SPACE)


@dataclass(frozen=True)
class ByFile:
    """A table of all files."""

    title: str
    columns: list[str]
    rows: tuple[Cells, ...]


@dataclass(frozen=True)
class OfFile:
    """A file whose packets are drawn over time, and the names of its pictures."""

    name: str
    over_time: str | None
    bins: str
    dashed: str
    anomalies: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """What the section shows."""

    tables: tuple[ByFile, ...]
    curves: list[tuple[str, str]]
    by_file: Picture | None
    files: tuple[OfFile, ...]
    more: int
    file: str


def _tables(files: Sequence[FileFigures]) -> Iterator[ByFile]:
    """Yield a table of packets and their latency, and one for each kind of anomaly."""
    called = list(zip(names(files), files, strict=True))
    rows = tuple(Cells(name=name, figures=_row(one)) for name, one in called)
    yield ByFile("Packets by file, and their latency", ["file", *COLUMNS], rows)
    for kind in dict.fromkeys(name for one in files for name in kinds(one)):
        rows = tuple(
            Cells(name=name, figures=_late_row(one, kinds(one).get(kind))) for name, one in called
        )
        yield ByFile(f"Anomalies ({kind}) by file", ["file", *LATE_COLUMNS], rows)


def _by_file(files: Sequence[FileFigures]) -> Picture | None:
    """Return anomalies a day by file, of the first kind; None where there is nothing to compare."""
    kind = next((name for one in files for name in kinds(one)), "")
    found = [
        (labels.fit(name), late, daily)
        for name, one in zip(names(files), files, strict=True)
        if (late := kinds(one).get(kind)) and (daily := a_day(late, one.seconds)) is not None
    ]
    if len(found) < 2:
        return None
    most = sorted(found, key=lambda one: -one[2])[:MOST_BARS]
    return bars(
        BY_FILE,
        f"Anomalies by file, {kind}",
        "Anomalies a day, and the longest",
        [
            Bar(name, daily, f"{_daily(daily)}, {quantity(late.duration_ns.max, 'ns')}")
            for name, late, daily in found
            if (name, late, daily) in most
        ],
        compared=False,
    )


def _of_file(one: FileFigures, name: str, place: int) -> tuple[OfFile, list[Picture]]:
    title = labels.fit(name)
    drawn = timeline.over_time(f"packets-over-time{suffix(place)}", title, one)
    apart = [
        picture
        for number_, late in enumerate((one.late or ())[: timeline.LIMITS], 1)
        if (
            picture := timeline.anomalies(
                f"packets-anomalies-{number_}{suffix(place)}", title, late, one
            )
        )
    ]
    pictures = [*([drawn] if drawn else []), *apart]
    shown = OfFile(
        name=name,
        over_time=drawn.name if drawn else None,
        bins=quantity(timeline.width_ns(one), "ns"),
        dashed=joined([quantity(late.late_ns, "ns") for late in timeline.limits(one)]),
        anomalies=tuple(picture.name for picture in apart),
    )
    return shown, pictures


def _sections(run: Run) -> list[Section]:
    files = load(run)
    if not files:
        return []
    called = names(files)
    titles = list(map(labels.fit, called))
    distributions = list(curves.pictures(list(zip(titles, files, strict=True))))
    by_file = _by_file(files)
    drawn = [
        _of_file(one, name, place)
        for place, (one, name) in enumerate(zip(files[:DRAWN], called, strict=False))
    ]
    shown = Shown(
        tables=tuple(_tables(files)),
        curves=[(picture.name, picture.title) for picture in distributions],
        by_file=by_file,
        files=tuple(one for one, _ in drawn),
        more=max(len(files) - DRAWN, 0),
        file=FILE,
    )
    pictures = (
        *distributions,
        *([by_file] if by_file else []),
        *(picture for _, some in drawn for picture in some),
    )
    return [Section("packets/section.html.j2", shown, pictures)]


def _told(one: FileFigures) -> str:
    """Return what is to be said of a file first."""
    said = [f"{_number(one.packets)} packets"]
    if one.lost is not None:
        lost = f"{_number(one.lost)} lost ({share(one.lost_share)})"
        said.append("none lost" if one.lost == 0 else lost)
    latency = one.latency_ns
    if latency is not None and latency.count:
        said += [
            f"{figure} {quantity(value, 'ns')}"
            for figure, value in (
                ("median latency", latency.percentiles.get("50")),
                ("p99", latency.percentiles.get("99")),
                ("max", latency.max),
            )
            if value is not None
        ]
    else:
        between = one.inter_arrival_ns
        said.append(f"inter-arrival time {quantity(between.mean, 'ns')} in the mean")
    if one.late:
        kind = one.late[0]
        what = "anomaly" if kind.count == 1 else "anomalies"
        said.append(f"{_number(kind.count)} {what} ({timeline.limit_name(kind)})")
    return joined(said)


def _headline(run: Run) -> str | None:
    files = load(run)
    if not files:
        return None
    if len(files) == 1:
        return _told(files[0])
    called = dict(zip(names(files), files, strict=True))
    whole = counted(len(files), "file")
    daily = {
        name: found
        for name, one in called.items()
        if one.late and (found := a_day(one.late[0], one.seconds)) is not None
    }
    if not daily:
        return f"{whole}, {_number(sum(one.packets for one in files))} packets"
    most = max(daily, key=lambda name: daily[name])
    if not daily[most]:
        return f"{whole} without an anomaly"
    kind = (called[most].late or ())[0]
    return (
        f"Of {whole} {most} has the most anomalies a day ({timeline.limit_name(kind)}): "
        f"{_number(kind.count)} in {seconds(called[most].seconds)}"
    )


def _sentences(run: Run) -> list[str]:
    files = load(run)
    return [f"{name}: {_told(one)}." for name, one in zip(names(files), files, strict=True)]


def _unseen(run: Run) -> list[str]:
    files = load(run)
    said = []
    for name, one in zip(names(files), files, strict=True):
        reasons: dict[str, list[str]] = {}
        for field, why in one.unknown.items():
            reasons.setdefault(why, []).append(field.removesuffix("_ns").replace("_", " "))
        said += [f"{name}: not known: {joined(of)}: {why}." for why, of in reasons.items()]
        said += [f"{name}: {trouble}." for trouble in one.troubles]
    return said


def _figures(run: Run) -> Iterator[Figure]:
    files = load(run)
    for name, one in zip(names(files), files, strict=True):
        found: list[tuple[str, str, str, float | None]] = [
            ("packets", "", "packets", one.packets),
            ("rate", "", "packets/s", one.rate),
            ("lost", "", "1", one.lost_share),
        ]
        for kind in curves.KINDS:
            if (times := kind.times(one)) is not None:
                part = kind.name
                found += [("min", part, "ns", times.min), ("mean", part, "ns", times.mean)]
                found += [(f"p{of}", part, "ns", value) for of, value in times.percentiles.items()]
                found.append(("max", part, "ns", times.max))
        for part, late in kinds(one).items():
            found += [
                ("anomalies", part, "count/s", late.count / one.seconds if one.seconds else None),
                ("packets in anomalies", part, "1", late.share),
                ("longest anomaly", part, "ns", late.duration_ns.max),
            ]
        for figure, part, unit, value in found:
            yield Figure(
                measure=MEASURE,
                figure=figure,
                part=part,
                unit=unit,
                setting=name,
                traffic="",
                rate=None,
                value=None if value is None else float(value),
            )


def _printed(run: Run) -> list[Table]:
    return [part for one in load(run) for part in tables.of_file(one) if isinstance(part, Table)]


VIEW = View(
    tables=_printed,
    sections=_sections,
    headline=_headline,
    sentences=_sentences,
    unseen=_unseen,
    figures=lambda run: list(_figures(run)),
)
