# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions per packet by setting: the table, the page's section, the sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base import told
from skblab_analysis.base.certainty import AGAIN, Change, Difference, false_alarms
from skblab_analysis.base.comparison import Comparison, Wording
from skblab_analysis.base.differences import alarms_text
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import named, titled
from skblab_analysis.base.words import NARROW_SPACE, joined, number, share, signed, small_share
from skblab_analysis.exact.picture import picture
from skblab_analysis.exact.summary import (
    RESOLUTION,
    SPREAD_LIMIT,
    Cost,
    ExactSummary,
    of,
    path_by_boot,
)
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View, suffix

# Said where a percentage is not of the path.
NO_TESTER = "the tester was not measured: every figure and percentage includes it"


def exact_table(exact: ExactSummary, identical: Collection[str] = ()) -> Table:
    """Return instructions per packet by setting with the difference and the repeat spread."""
    what = f", {exact.traffic}" if exact.traffic else ""
    table = titled(f"Exact cost (instructions per packet{what})")
    costs = [*exact.costs, *exact.testers]
    # Said once where all have the same.
    each = {(cost.trials, cost.boots) for cost in costs}
    counted = ("trials", "boots") if len(each) > 1 else ()
    table.add_column("setting", overflow="fold")
    for name in (*counted, *_columns(exact), "spread"):
        table.add_column(name, justify="right", no_wrap=True)
    by_setting = {change.setting: change.difference for change in exact.differences}
    for cost in costs:
        alone = cost in exact.testers
        if alone and cost is exact.testers[0]:
            table.add_section()
        table.add_row(
            named(cost.setting, identical),
            *((str(cost.trials), str(cost.boots)) if counted else ()),
            *_figures(cost, exact, by_setting.get(cost.setting)),
            _spread(cost),
        )
    said = [f"{trials} trials of each, in {boots} boots" for trials, boots in each if not counted]
    said += [NO_TESTER] if not exact.of_path else []
    if any(cost.repeats is False for cost in costs):
        said.append(f"spread with >: trials further apart than {small_share(SPREAD_LIMIT)}")
    said += [
        f"{escape(change.setting)}: not significant, the smallest detectable difference is "
        f"{number(change.difference.detectable, 1)}"
        for change in exact.differences
        if change.difference.significant is False
    ]
    if any(change.difference.significant is None for change in exact.differences):
        said.append("in brackets: of one boot, whether it is significant is not known")
    table.caption = "; ".join(said)
    return table


def _columns(exact: ExactSummary) -> tuple[str, ...]:
    """Return the names of `_figures`."""
    if exact.of_path:
        return "path", "difference", "of path", "with tester"
    return "with tester", "difference", "of all"


def _figures(cost: Cost, exact: ExactSummary, difference: Difference | None) -> tuple[str, ...]:
    """Return a setting's figures; of a tester alone nothing but its own."""
    mean = number(cost.mean, 1)
    if cost in exact.testers:
        return ("", "", "", mean) if exact.of_path else (mean, "", "")
    compared = _words(difference, exact)[::2] if difference else ("baseline", "")
    return (number(exact.path(cost), 1), *compared, mean) if exact.of_path else (mean, *compared)


def _words(difference: Difference, exact: ExactSummary, space: str = " ") -> tuple[str, str, str]:
    """Return a difference, in brackets if not significant, half of its interval, and its share."""
    text = signed(difference.effect, 1, space)
    half = "" if difference.margin is None else f"±{number(difference.margin, 1, space)}"
    text = text if difference.significant else f"({text})"
    return text, half, share(exact.share(difference), 1, sign=True)


def _spread(cost: Cost) -> str:
    text = number(cost.spread, 1)
    return text if cost.repeats is not False else f"[red]{text} > {number(cost.limit, 1)}[/red]"


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic."""

    suffix: str
    summary: ExactSummary
    columns: tuple[str, ...]
    rows: tuple[Cells, ...]
    spread_limit: str


def _section(exact: ExactSummary, place: int) -> Section:
    differences = {change.setting: change.difference for change in exact.differences}
    of = ("of path", "path") if exact.of_path else ("of all",)
    columns = ("difference", "95 %", *of, "with tester")
    rows = [_row(cost, exact, differences.get(cost.setting)) for cost in exact.costs]
    rows += [
        Cells(
            name=tester.setting,
            about="generator, links and sink with nothing in between",
            figures=(
                *([""] * (len(columns) - 1)),
                number(tester.mean, 1, NARROW_SPACE),
                *_repeats(tester),
            ),
        )
        for tester in exact.testers
    ]
    shown = Shown(
        suffix(place),
        exact,
        (*columns, "spread", "trials", "boots"),
        tuple(rows),
        small_share(SPREAD_LIMIT),
    )
    return Section("exact/section.html.j2", shown, (picture(exact, suffix(place)),))


def _row(cost: Cost, exact: ExactSummary, difference: Difference | None) -> Cells:
    compared = _words(difference, exact, NARROW_SPACE) if difference else ("baseline", "", "")
    path = (number(exact.path(cost), 1, NARROW_SPACE),) if exact.of_path else ()
    return Cells(
        name=cost.setting,
        figures=(*compared, *path, number(cost.mean, 1, NARROW_SPACE), *_repeats(cost)),
    )


def _repeats(cost: Cost) -> tuple[str, ...]:
    return number(cost.spread, 1, NARROW_SPACE), str(cost.trials), str(cost.boots)


def compared(run: Run) -> list[Comparison]:
    """Return what settings cost beyond the baseline, of each traffic."""
    return [
        Comparison(
            measure="instructions",
            figure="path" if exact.of_path else "path and tester",
            unit="instructions/packet",
            baseline=exact.baseline.setting,
            changes=exact.differences,
            wording=_wording(" of the path" if exact.of_path else " of path and tester"),
            traffic=exact.traffic,
            path=exact.whole if exact.of_path else None,
        )
        for exact in of(run)
    ]


def _wording(whole: str) -> Wording:
    return Wording(
        what="instructions",
        noun="instructions a packet",
        better=("save", f"{{}}{whole}"),
        worse=("cost", f"{{}}{whole}"),
        best="Biggest saving",
        worst="Biggest cost",
        whole=whole,
    )


def _sentences(exact: ExactSummary) -> Iterator[str]:
    for change in exact.differences:
        found = change.difference
        if change.setting == AGAIN:
            continue
        if found.significant is False:
            yield (
                f"{change.setting} does not differ significantly from {exact.baseline.setting}: "
                "the smallest detectable difference is "
                f"{number(found.detectable, 1, NARROW_SPACE)} instructions a packet"
                f"{', the resolution' if found.why == 'resolution' else ''}."
            )
            continue
        whole = "the path" if exact.of_path else "path and tester together"
        yield f"{_cost(change, exact)}: {share(exact.share(found), 1, sign=True)} of {whole}."
    spreads = [cost.spread for cost in exact.costs if cost.spread is not None]
    if spreads:
        boots = max(cost.boots for cost in exact.costs)
        yield (
            f"Trials of one setting differ by {number(max(spreads), 1, NARROW_SPACE)} instructions "
            f"a packet at most, over {boots} {'boot' if boots == 1 else 'boots'}."
        )


def sentences(found: Sequence[ExactSummary]) -> list[str]:
    """Return what each setting costs or saves, how far trials differ, and false alarms."""
    said = [sentence for exact in found for sentence in _sentences(exact)]
    again = [
        change.difference
        for exact in found
        for change in exact.differences
        if change.setting == AGAIN
    ]
    return said + alarms_text("instructions", false_alarms(again))


def _cost(change: Change, exact: ExactSummary) -> str:
    effect = change.difference.effect
    amount = f"{number(abs(effect), 1, NARROW_SPACE)} instructions a packet"
    baseline = exact.baseline.setting
    traffic = f"{exact.traffic}: " if exact.traffic else ""
    if effect < 0:
        return f"{traffic}{change.setting} saves {amount}, compared with {baseline}"
    return f"{traffic}{change.setting} costs {amount} more than {baseline}"


def _unseen(exact: ExactSummary) -> Iterator[str]:
    bare = [cost.setting for cost in exact.costs if exact.tester(cost) is None]
    if bare:
        where = "every exact figure"
        if len(bare) < len(exact.costs):
            where = f"the exact figures of {joined(bare)}"
        yield f"The tester was not measured alone: its cost is in {where}."
    for cost in exact.costs:
        if cost.repeats is None:
            yield f"{cost.setting} was counted once: how well it repeats is not known."
        elif not cost.repeats:
            yield (
                f"Trials of {cost.setting} differ by {number(cost.spread, 1, NARROW_SPACE)} "
                f"instructions a packet, the limit is {number(cost.limit, 1, NARROW_SPACE)}."
            )


def _data(exact: ExactSummary) -> Iterator[Figure]:
    """Yield what a packet costs on the path and tester together, then on the path alone."""
    for cost in exact.costs:
        yield _figure("path and tester", cost, exact, cost.mean)
        if exact.of_path:
            yield _figure("path", cost, exact, exact.path(cost))
    for tester in exact.testers:
        yield _figure("tester", tester, exact, tester.mean)


def _figure(name: str, cost: Cost, exact: ExactSummary, value: float | None) -> Figure:
    return Figure(
        measure="instructions",
        figure=name,
        unit="instructions/packet",
        setting=cost.setting,
        traffic=exact.traffic,
        value=value,
        blocks=cost.boots,
    )


def _samples(run: Run) -> list[Sampled]:
    return [
        Sampled(
            measure="instructions",
            figure="path" if exact.tester(cost) else "path and tester",
            unit="instructions/packet",
            setting=cost.setting,
            blocks=path_by_boot(exact, cost),
            traffic=exact.traffic,
            resolution=RESOLUTION * cost.mean,
        )
        for exact in of(run)
        for cost in exact.costs
    ]


VIEW = View(
    samples=_samples,
    figures=lambda run: [figure for exact in of(run) for figure in _data(exact)],
    tables=lambda run: [exact_table(exact, run.identical) for exact in of(run)],
    sections=lambda run: [_section(exact, place) for place, exact in enumerate(of(run))],
    headline=lambda run: told.headline(
        compared(run), doubt="one block: it may be chance", apart=run.only_here
    ),
    compared=compared,
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: [sentence for exact in of(run) for sentence in _unseen(exact)],
)
