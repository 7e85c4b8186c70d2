# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of a run: report/index.html, made from the run folder alone.

One file that needs nothing else: style and pictures are inside, no script, no request. Links lead
to the raw files of the run folder beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from skblab_analysis import files
from skblab_analysis.base import words
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.histogram import TAIL_SAMPLES
from skblab_analysis.base.words import (
    FIXED_SPACE,
    NARROW_SPACE,
    about,
    at_rate,
    label,
    number,
    share,
    slowest,
    small_share,
)
from skblab_analysis.cost.probe import load as load_cost
from skblab_analysis.cost.probe import sentence as cost_sentence
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.exact.summary import SPREAD_LIMIT, ExactSummary
from skblab_analysis.formats.pathlat import PathName
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency import view as delays
from skblab_analysis.latency.summary import LatencySummary
from skblab_analysis.layers import summary as layers_summary
from skblab_analysis.layers import view as layers_by_setting
from skblab_analysis.layers.account import Account
from skblab_analysis.layers.ledger import MAX_MISPLACED_SHARE, MAX_UNSEEN_SHARE, Ledger
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.summary import LayeringSummary
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings, pictures, svg
from skblab_analysis.report.pictures import GnuplotRunner, Picture
from skblab_analysis.report.terminal import (
    PERCENTILES,
    account_rows,
    account_title,
    exact_words,
    lost_words,
    rest_of,
    scale_of,
    share_of_total,
)
from skblab_analysis.rfc2544 import summary as rfc2544_summary
from skblab_analysis.rfc2544 import view as benchmarks
from skblab_analysis.rfc2544.summary import Rfc2544Summary
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput import view as rates
from skblab_analysis.throughput.summary import ThroughputSummary
from skblab_analysis.trials.rows import Clock
from skblab_analysis.work import summary as work_summary
from skblab_analysis.work.summary import ByCpu, Work

TEMPLATES = Path(__file__).resolve().parent / "templates"
CLOCKS: tuple[Clock, ...] = ("wall", "exact")


@dataclass(frozen=True)
class Cells:
    """One table row: its name, a sentence below the name, and the figures as text."""

    name: str
    about: str
    figures: tuple[str, ...]
    strong: bool = False


@dataclass(frozen=True)
class Figure:
    """A picture inside the page, drawn for wide and for narrow screens, with its files."""

    name: str
    title: str
    wide: Markup
    narrow: Markup


@dataclass(frozen=True)
class PathShown:
    """What is shown of each path of a timed trial."""

    name: PathName
    title: str
    unit: str
    layers: tuple[Cells, ...]
    share: Figure
    others: Figure | None
    left_out: str


@dataclass(frozen=True)
class AccountShown:
    """An account of a probe, its lines and the share that is unaccounted for."""

    title: str
    rows: tuple[tuple[str, int, str], ...]
    unaccounted: tuple[tuple[str, int], ...]
    share: str


@dataclass(frozen=True)
class Timed:
    """All that is shown of one timed trial, the path that it is about first."""

    clock: Clock
    ledger: Ledger | None
    accounts: tuple[AccountShown, ...]
    rates: str
    paths: tuple[PathShown, ...]
    distribution: Figure | None
    polls: tuple[Cells, ...]
    polls_unit: str
    polls_figure: Figure | None
    lost: str
    rest: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Exact:
    """All that is shown of the exact figures."""

    summary: ExactSummary
    rows: tuple[Cells, ...]
    figure: Figure


@dataclass(frozen=True)
class RatesOfGoal:
    """The table of one goal, and what the goal is."""

    name: str
    words: str
    rows: tuple[Cells, ...]


@dataclass(frozen=True)
class Throughput:
    """All that is shown of the searches with one traffic."""

    summary: ThroughputSummary
    goals: tuple[RatesOfGoal, ...]
    figure: Figure


@dataclass(frozen=True)
class Benchmarks:
    """All that is shown of RFC 2544's other tests with one traffic."""

    traffic: str
    rows: tuple[Cells, ...]
    loads: tuple[str, ...]
    losses: tuple[Cells, ...]
    note: str


@dataclass(frozen=True)
class Latency:
    """All that is shown of the latency trials with one traffic at one rate."""

    title: str
    unit: str
    compared: str
    rows: tuple[Cells, ...]
    late: tuple[Cells, ...]
    in_a_row: int
    others: tuple[Cells, ...]
    figure: Figure | None


@dataclass(frozen=True)
class Layering:
    """All that is shown of the layer probe with one traffic at one rate."""

    title: str
    unit: str
    names: tuple[str, ...]
    rows: tuple[Cells, ...]


def build_report(run_dir: Path, gnuplot: GnuplotRunner) -> Path:
    """Write report/index.html and its pictures into the run folder; returns the page's path.

    Raises RecordError for a folder that is no whole run, and whatever `gnuplot` raises.
    """
    run = load(run_dir)
    folder = run_dir / "report"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot make {folder}: {error.strerror}") from error
    timed = [one for clock in CLOCKS if (one := _timed(run, clock, folder, gnuplot))]
    known = load_cost(run_dir)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=run.document,
            headline=findings.headline(run),
            findings=[*findings.sentences(run), *([cost_sentence(known)] if known else [])],
            unseen=findings.unseen(run),
            void=[row for row in run.trials if row.state == "void"],
            complaints=run.complaints(),
            timed=timed,
            exacts=[
                _exact(one, place, folder, gnuplot)
                for place, one in enumerate(exact_summary.of(run))
            ],
            throughputs=[
                _throughput(one, place, folder, gnuplot)
                for place, one in enumerate(throughput_summary.of(run))
            ],
            benchmarks=list(map(_benchmarks, rfc2544_summary.of(run))),
            benchmark_names=benchmarks.COLUMNS,
            latencies=[
                _latency(one, place, folder, gnuplot)
                for place, one in enumerate(latency_summary.of(run))
            ],
            quantiles=tuple(delays.QUANTILES),
            layerings=list(map(_layering, layers_summary.of(run))),
            works=[_work(one) for one in work_summary.of(run)],
            best=rates.commands(run),
            percentiles=tuple(PERCENTILES),
            tail_samples=TAIL_SAMPLES,
            unseen_limit=share(MAX_UNSEEN_SHARE, 0),
            misplaced_limit=share(MAX_MISPLACED_SHARE, 0),
            spread_limit=small_share(SPREAD_LIMIT),
            total_seconds=sum(timing.seconds for timing in run.document.timings),
            raw=_raw_files(run_dir),
        )
    )
    path = folder / "index.html"
    files.write(path, page)
    return path


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["count"] = _count
    environment.filters["seconds"] = words.seconds
    return environment


def _timed(run: Run, clock: Clock, folder: Path, gnuplot: GnuplotRunner) -> Timed | None:
    ledger, accounts = run.ledger(clock), run.accounts(clock)
    if ledger is None and not any(one.ended for one in accounts):
        return None
    polls = findings.polls(run, clock)
    main = findings.main_path(run, clock)
    suffix = "" if clock == "wall" else f"-{clock}"
    order: list[PathName] = [main, *(path for path in words.PATHS if path != main)]
    by_path = {path: findings.timed(run, clock, path) for path in order}
    paths = tuple(
        _path(path, found, suffix, folder, gnuplot) for path, found in by_path.items() if found
    )
    title = "How the times are distributed"
    found = _on_the_path(by_path[main])
    picture = pictures.distribution_picture(
        f"distribution{suffix}", "Packets", title, _with_shape(found) or found
    )
    distribution = _figure(picture, folder, gnuplot) if found else None
    polls_figure = None
    if shaped := _with_shape(polls):
        picture = pictures.distribution_picture(
            f"napi{suffix}", "Polls", "NAPI polls by time", shaped
        )
        polls_figure = _figure(picture, folder, gnuplot)
    rates = ""
    if ledger is not None:
        trial = run.trials[ledger.trial]
        rates = _rates(trial.send_rate, trial.receive_rate)
    return Timed(
        clock=clock,
        ledger=ledger,
        accounts=() if ledger else tuple(map(_account, accounts)),
        rates=rates,
        paths=paths,
        distribution=distribution,
        polls=tuple(_poll(one, polls) for one in polls),
        polls_unit=scale_of(polls).name if polls else "",
        polls_figure=polls_figure,
        lost=lost_words(ledger) if ledger else "",
        rest=tuple(rest_of(ledger)) if ledger else (),
    )


def _account(one: Account) -> AccountShown:
    return AccountShown(
        title=account_title(one),
        rows=tuple(account_rows(one)),
        unaccounted=tuple(one.unaccounted.items()),
        share=small_share(one.share),
    )


def _path(
    path: PathName, found: list[Series], suffix: str, folder: Path, gnuplot: GnuplotRunner
) -> PathShown:
    # Names of files and of anchors; the path that a run is about has none.
    name = suffix if path == "receive" else f"-{path}{suffix}"
    shown = _on_the_path(found)
    shared = _figure(pictures.share_picture(f"share{name}", shown), folder, gnuplot)
    rest = findings.dominant(shown)
    others = None
    if rest is not None:
        others = _figure(pictures.share_picture(f"others{name}", shown, rest), folder, gnuplot)
    return PathShown(
        name=path,
        title=f"Where {words.PATHS[path]} goes",
        unit=scale_of(found).name,
        layers=tuple(_layer(one, found) for one in found),
        share=shared,
        others=others,
        left_out=label(rest) if rest is not None else "",
    )


def _on_the_path(found: Sequence[Series]) -> list[Series]:
    """Those that add up, without the time that includes what was before."""
    return [one for one in found if one.kind != "entry"]


def _with_shape(found: Sequence[Series]) -> list[Series]:
    """Those with values enough for a median: a line through one value shows no distribution."""
    return [one for one in found if one.histogram.quantile(0.5) is not None]


def _layer(one: Series, found: Sequence[Series]) -> Cells:
    total = one.kind == "total"
    return Cells(
        name="whole path" if total else label(one),
        about=label(one) if total else about(one),
        figures=(
            "" if one.kind == "entry" else share(share_of_total(one, found)),
            *_figures(one, found),
        ),
        strong=total,
    )


def _poll(one: Series, polls: Sequence[Series]) -> Cells:
    return Cells(name=label(one), about=about(one), figures=_figures(one, polls))


def _figures(one: Series, found: Sequence[Series]) -> tuple[str, ...]:
    scaled = scale_of(found)
    histogram = one.histogram

    def text(value: float | None) -> str:
        return scaled.text(value, NARROW_SPACE)

    values = [histogram.mean, *(histogram.quantile(q) for q in PERCENTILES.values())]
    return (*map(text, values), slowest(histogram, text), _count(histogram.count))


def _exact(summary: ExactSummary, place: int, folder: Path, gnuplot: GnuplotRunner) -> Exact:
    differences = {one.setting: one.difference for one in summary.differences}
    rows = []
    for cost in summary.costs:
        difference = differences.get(cost.setting)
        rows.append(
            Cells(
                name=cost.setting,
                about="",
                figures=(
                    *(
                        exact_words(difference, NARROW_SPACE)
                        if difference
                        else ("baseline", "", "")
                    ),
                    number(cost.mean, 1, NARROW_SPACE),
                    number(summary.path(cost), 1, NARROW_SPACE),
                    small_share(cost.spread),
                    str(cost.trials),
                    str(cost.boots),
                ),
            )
        )
    rows += [
        Cells(
            name=tester.setting,
            about="generator, links and sink with nothing in between",
            figures=(
                "",
                "",
                "",
                number(tester.mean, 1, NARROW_SPACE),
                "",
                small_share(tester.spread),
                str(tester.trials),
                str(tester.boots),
            ),
        )
        for tester in summary.testers
    ]
    picture = pictures.exact_picture(summary, _suffix(place))
    return Exact(summary, tuple(rows), _figure(picture, folder, gnuplot))


def _throughput(
    summary: ThroughputSummary, place: int, folder: Path, gnuplot: GnuplotRunner
) -> Throughput:
    picture = pictures.throughput_picture(summary, _suffix(place))
    goals = tuple(
        RatesOfGoal(
            name=goal.goal,
            words=rates.goal_words(goal),
            rows=tuple(
                Cells(
                    name=one.setting,
                    about="",
                    figures=(
                        *(one.difference, one.difference_half, one.rate, one.half),
                        *(one.blocks, one.limit),
                    ),
                    strong=one.setting == goal.baseline,
                )
                for one in rates.rows(goal, NARROW_SPACE)
            ),
        )
        for goal in summary.goals
    )
    return Throughput(summary, goals, _figure(picture, folder, gnuplot))


def _benchmarks(summary: Rfc2544Summary) -> Benchmarks:
    return Benchmarks(
        traffic=summary.traffic,
        rows=_tested(benchmarks.rows(summary, NARROW_SPACE)),
        loads=tuple(benchmarks.load_names(summary)),
        losses=_tested(benchmarks.loss_rows(summary)),
        note=benchmarks.note([summary]),
    )


def _tested(found: Sequence[benchmarks.TestCells]) -> tuple[Cells, ...]:
    return tuple(Cells(name=one.setting, about="", figures=one.figures) for one in found)


def _latency(summary: LatencySummary, place: int, folder: Path, gnuplot: GnuplotRunner) -> Latency:
    shown = pictures.latency_series(summary)
    figure = None
    if shown:
        picture = pictures.distribution_picture(
            f"latency{_suffix(place)}", "Packets", f"Latency, {at_rate(summary)}", shown
        )
        figure = _figure(picture, folder, gnuplot)
    scaled = delays.scale_of(summary)
    everyone = (*summary.delays, *summary.testers)
    return Latency(
        title=at_rate(summary),
        unit=scaled.name,
        compared=summary.baseline or "",
        rows=tuple(
            Cells(
                name=one.setting,
                about="",
                figures=(one.difference, one.half, *one.times, one.lost, one.blocks, one.rate),
                strong=one.setting == summary.baseline,
            )
            for one in delays.rows(summary, NARROW_SPACE)
        ),
        late=tuple(
            Cells(
                name=one.setting,
                about="",
                figures=(
                    *(one.threshold, one.late, one.share, one.runs, one.in_runs, one.longest),
                    one.difference,
                ),
            )
            for one in delays.late_rows(summary, NARROW_SPACE)
        ),
        in_a_row=max((late.in_a_row for one in everyone for late in one.lateness), default=1),
        others=tuple(
            Cells(
                name=f"{one.setting}: {figure_name}",
                about="",
                figures=delays.figure_row(one, figure_name, scaled, NARROW_SPACE),
            )
            for one in everyone
            for figure_name in ("jitter", "inter-arrival")
        ),
        figure=figure,
    )


def _layering(summary: LayeringSummary) -> Layering:
    rows = layers_by_setting.rows(summary, NARROW_SPACE)
    return Layering(
        title=at_rate(summary),
        unit=layers_by_setting.scale_of(summary).name,
        names=tuple(layers_by_setting.names(summary)),
        rows=tuple(
            cells
            for one in rows
            for cells in (
                Cells(one.setting, "", one.means, strong=one.setting == summary.baseline),
                Cells("", f"{one.setting}: difference", one.differences),
            )
            if any(cells.figures)
        ),
    )


def _work(one: Work) -> Cells:
    return Cells(
        name=one.setting,
        about="",
        figures=(
            str(one.trials),
            *map(_by_cpu, (one.interrupts, one.net_rx, one.processed)),
            _count(one.squeezed),
            _count(one.dropped),
            *(words.quantity(ns, "ns") if ns else "" for ns in (one.napi_ns, one.ksoftirqd_ns)),
        ),
    )


def _by_cpu(counts: ByCpu) -> str:
    """Return a sum, and what part of it each CPU has: 12 000 (CPU 0: 60, 1: 40 %)."""
    whole = sum(counts.values())
    if not whole:
        return _count(whole)
    if len(counts) == 1:
        return f"{_count(whole)} (CPU {next(iter(counts))})"
    parts = ", ".join(f"{cpu}: {100 * count / whole:.0f}" for cpu, count in counts.items())
    return f"{_count(whole)} (CPU {parts}{FIXED_SPACE}%)"


def _suffix(place: int) -> str:
    """Tell the files of further traffic from those of the first."""
    return f"-{place + 1}" if place else ""


def _figure(picture: Picture, folder: Path, gnuplot: GnuplotRunner) -> Figure:
    pictures.draw(picture, folder, gnuplot)

    def variant(suffix: str, css_class: str) -> Markup:
        return svg.inline(
            folder / f"{picture.name}{suffix}.svg",
            f"{picture.name}{suffix}",
            picture.title,
            picture.description,
            css_class,
        )

    return Figure(picture.name, picture.title, variant("", "wide"), variant("-narrow", "narrow"))


def _rates(send: float | None, receive: float | None) -> str:
    parts = []
    if send is not None:
        parts.append(f"sent at {_count(round(send))} packets/s")
    if receive is not None:
        parts.append(f"received at {_count(round(receive))} packets/s")
    return ", ".join(parts)


def _raw_files(run_dir: Path) -> list[str]:
    """Return the run's own files, relative to the folder, all but the report."""
    found: list[Path] = [
        path.relative_to(run_dir)
        for path in run_dir.rglob("*")
        if path.is_file() and path.relative_to(run_dir).parts[0] != "report"
    ]
    return [path.as_posix() for path in sorted(found, key=lambda path: (len(path.parts), path))]


def _count(value: float) -> str:
    return number(value, 0, NARROW_SPACE)
