# SPDX-License-Identifier: GPL-2.0-or-later
"""What one trial of the probe saw: layers of each path, the ledger, NAPI polls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base.histogram import TAIL_SAMPLES
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.words import NARROW_SPACE, share, slowest, small_share, spaced
from skblab_analysis.formats.ledger import Ledger
from skblab_analysis.formats.pathlat import PathlatDocument, PathName
from skblab_analysis.formats.summary import Figure
from skblab_analysis.layers import sentences
from skblab_analysis.layers.pictures import distribution, share_picture
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.tables import (
    PERCENTILES,
    Line,
    ledger_parts,
    ledger_table,
    ledger_title,
    of_series,
    scale_of,
    share_of_total,
)
from skblab_analysis.layers.words import PATHS, about, label
from skblab_analysis.load import Run
from skblab_analysis.trials.rows import Clock
from skblab_analysis.view import Cells, Section, View


def tables(run: Run, document: PathlatDocument | None = None) -> list[Table]:
    """Return the tables of every trial that has a ledger.

    With the probe's document of a run that has one, also those of its groups.
    """
    made: list[Table] = []
    for ledger in run.document.ledgers:
        made += [*of_series(run.of_trial(ledger.trial), document), ledger_table(ledger)]
    return made


@dataclass(frozen=True)
class PathShown:
    """What the section has of each path; `part` tells its files and anchors from others'.

    `bounded`: its times are the kernel's own histograms'.
    """

    part: str
    title: str
    unit: str
    layers: tuple[Cells, ...]
    share: str
    others: str
    left_out: str
    bounded: bool


@dataclass(frozen=True)
class LedgerShown:
    """A ledger: its parts, whether some lines say what was not seen, what is unaccounted for."""

    title: str
    parts: list[list[Line]]
    points: bool
    share: str


@dataclass(frozen=True)
class Shown:
    """What the section has of one clock, the path that the run is about first."""

    suffix: str
    in_unit: str
    ledgers: list[LedgerShown]
    rates: str
    paths: tuple[PathShown, ...]
    distribution: str
    polls: tuple[Cells, ...]
    polls_unit: str
    polls_picture: str
    percentiles: list[str]
    tail_samples: int


def _sections(run: Run) -> list[Section]:
    return [made for clock in sentences.CLOCKS if (made := _section(run, clock))]


def _section(run: Run, clock: Clock) -> Section | None:
    ledgers = run.ledgers(clock)
    if not any(ledger.ended for ledger in ledgers):
        return None
    polls = sentences.polls(run, clock)
    main = sentences.main_path(run, clock)
    suffix = "" if clock == "wall" else f"-{clock}"
    order: list[PathName] = [main, *(path for path in PATHS if path != main)]
    by_path = {path: sentences.timed(run, clock, path) for path in order}
    pictures: list[Picture] = []
    paths = tuple(_path(path, found, suffix, pictures) for path, found in by_path.items() if found)
    distributed, polled = "", ""
    if found := _on_the_path(by_path[main]):
        distributed = f"distribution{suffix}"
        title = "How the times are distributed"
        shaped = _with_shape(found) or found
        pictures.append(distribution(distributed, "Packets", title, shaped))
    if shaped := _with_shape(polls):
        polled = f"napi{suffix}"
        pictures.append(distribution(polled, "Polls", "NAPI polls by time", shaped))
    trial = run.trials[ledgers[-1].trial]
    shown = Shown(
        suffix=suffix,
        in_unit="" if clock == "wall" else " in instructions",
        ledgers=[_ledger(ledger) for ledger in ledgers],
        rates=_rates(trial.send_rate, trial.receive_rate),
        paths=paths,
        distribution=distributed,
        polls=tuple(_poll(poll, polls) for poll in polls),
        polls_unit=scale_of(polls).name if polls else "",
        polls_picture=polled,
        percentiles=list(PERCENTILES),
        tail_samples=TAIL_SAMPLES,
    )
    return Section("layers/trial.html.j2", shown, tuple(pictures))


def _ledger(ledger: Ledger) -> LedgerShown:
    return LedgerShown(
        title=ledger_title(ledger),
        parts=ledger_parts(ledger),
        points=ledger.exchange is not None,
        share=small_share(ledger.share),
    )


def _path(path: PathName, found: list[Series], suffix: str, pictures: list[Picture]) -> PathShown:
    """Return what is shown of a path, and add its pictures to those of the section."""
    # The path that a run is about has no name in files and anchors.
    part = suffix if path == "receive" else f"-{path}{suffix}"
    on_the_path = _on_the_path(found)
    pictures.append(share_picture(f"share{part}", on_the_path))
    rest = sentences.dominant(on_the_path)
    if rest is not None:
        pictures.append(share_picture(f"others{part}", on_the_path, rest))
    return PathShown(
        part=part,
        title=f"Where {PATHS[path]} goes",
        unit=scale_of(found).name,
        layers=tuple(_layer(series, found) for series in found),
        share=f"share{part}",
        others=f"others{part}" if rest is not None else "",
        left_out=label(rest) if rest is not None else "",
        bounded=any(series.histogram.bounded for series in found),
    )


def _on_the_path(found: Sequence[Series]) -> list[Series]:
    """Those that add up, without the time that includes what was before."""
    return [series for series in found if series.kind != "since_entry"]


def _with_shape(found: Sequence[Series]) -> list[Series]:
    """Those with values enough for a median: a line through one value shows no distribution."""
    return [series for series in found if series.histogram.quantile(0.5) is not None]


def _layer(series: Series, found: Sequence[Series]) -> Cells:
    total = series.kind == "path"
    return Cells(
        name="whole path" if total else label(series),
        about=label(series) if total else about(series),
        figures=(
            "" if series.kind == "since_entry" else share(share_of_total(series, found)),
            *_figures(series, found),
        ),
        strong=total,
    )


def _poll(poll: Series, polls: Sequence[Series]) -> Cells:
    return Cells(name=label(poll), about=about(poll), figures=_figures(poll, polls))


def _figures(series: Series, found: Sequence[Series]) -> tuple[str, ...]:
    scaled = scale_of(found)
    histogram = series.histogram

    def text(value: float | None) -> str:
        return scaled.text(value, NARROW_SPACE)

    values = [histogram.mean, *(histogram.quantile(q) for q in PERCENTILES.values())]
    return (*map(text, values), slowest(histogram, text), spaced(histogram.count))


def _rates(send: float | None, receive: float | None) -> str:
    parts = []
    if send is not None:
        parts.append(f"sent at {spaced(round(send))} packets/s")
    if receive is not None:
        parts.append(f"received at {spaced(round(receive))} packets/s")
    return ", ".join(parts)


def _of_trials(run: Run) -> Iterator[Figure]:
    """Yield mean and percentiles of each layer, path and NAPI figure of trials with a ledger."""
    for ledger in run.document.ledgers:
        trial = run.trials[ledger.trial]
        if trial.measure:
            # A sweep's: its layers are of settings, see view.py.
            continue
        for series in run.of_trial(ledger.trial):
            what = "path time" if series.kind == "path" else label(series)
            values = {"mean": series.histogram.mean}
            values |= {
                name: series.histogram.quantile(share) for name, share in PERCENTILES.items()
            }
            for name, value in values.items():
                yield Figure(
                    measure="layers",
                    figure=name,
                    part=f"{series.path}: {what}" if series.path else what,
                    unit=series.unit,
                    setting=trial.setting,
                    traffic=trial.traffic,
                    value=value,
                )


VIEW = View(
    figures=lambda run: list(_of_trials(run)),
    tables=tables,
    sections=_sections,
    headline=sentences.headline,
    summary=sentences.summary,
    sentences=sentences.sentences,
    unseen=sentences.unseen,
)
