# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes and patches cost: tables of the benchmark, and the sentence about a run's probe."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import ABSENT, FIXED_SPACE, number, share, signed
from skblab_analysis.cost import bench, editions, summary
from skblab_analysis.formats.bench import FAMILIES, BenchDocument, WallPair
from skblab_analysis.load import Run
from skblab_analysis.view import View


def _sentences(run: Run) -> list[str]:
    known = summary.load(run.folder)
    return [summary.sentence(known)] if known else []


VIEW = View(sentences=_sentences)


def of_bench(document: BenchDocument) -> list[Table]:
    """Return the tables of a benchmark of the patches, those that it has figures for."""
    made = [_row_table(document)]
    for path, title in ((bench.forwarding, "Forwarding"), (bench.receive, "UDP receive")):
        sections = [(family, path(document, family)) for family in FAMILIES]
        sections = [(family, figures) for family, figures in sections if figures]
        if sections:
            made.append(_cost_table(title, sections))
    polls = bench.polls(document)
    if polls:
        made.append(_poll_table(polls))
    if document.wall:
        made.append(_wall_table(document.wall))
    if found := editions.beside(document):
        made.append(_edition_table(found))
    return made


def _row_table(document: BenchDocument) -> Table:
    table = titled("Rows")
    table.add_column("row", no_wrap=True)
    for name in ("what it is", "kernel", "read by"):
        table.add_column(name, overflow="fold")
    group = None
    for row in document.rows:
        if group not in (None, row.group):
            table.add_section()
        group = row.group
        what = f"[red]refused:[/red] {escape(row.refused)}" if row.refused else escape(row.title)
        table.add_row(row.name, what, escape(row.kernel), escape(row.tool))
    return table


def _cost_table(title: str, sections: Sequence[tuple[int, Sequence[bench.Figures]]]) -> Table:
    table = titled(f"{title} (exact, instructions per packet)")
    table.add_column("row", no_wrap=True)
    receive = sections[0][1][0].queue is not None
    # The two parts of receiving stand in the place of the whole, which would be one too wide.
    split = ("queue", "read") if receive else ("whole",)
    for name in (*split, "path", "more", "of path", "a point", "+-"):
        table.add_column(name, justify="right", no_wrap=True)
    for family, figures in sections:
        table.add_row(f"[bold]IPv{family}[/bold]")
        for figure in figures:
            table.add_row(
                figure.row.name,
                *(
                    (number(figure.queue), number(figure.read))
                    if receive
                    else (number(figure.whole),)
                ),
                number(figure.path),
                "baseline" if figure.difference is None else signed(figure.difference),
                ""
                if figure.share is None
                else share(figure.share, 1, sign=True).replace(FIXED_SPACE, ""),
                "" if figure.per_point is None else signed(figure.per_point, 1),
                _margin(figure.certainty),
                end_section=figure is figures[-1],
            )
    return table


def _poll_table(polls: Sequence[bench.Poll]) -> Table:
    table = titled("NAPI (exact, instructions per poll)")
    for name in ("row", "compared with"):
        table.add_column(name, no_wrap=True)
    for name in ("polls a packet", "more", "+-"):
        table.add_column(name, justify="right", no_wrap=True)
    for poll in polls:
        table.add_row(
            poll.row.name,
            poll.baseline,
            number(poll.polls_per_packet, 2),
            signed(poll.per_poll, 1),
            _margin(poll.certainty),
        )
    return table


def _margin(one: Difference | None) -> str:
    """Return half of an interval; in brackets if it holds 0."""
    if one is None or one.margin is None:
        return "" if one is None else ABSENT
    text = number(one.margin, 1)
    return text if one.significant else f"({text})"


def _wall_table(pairs: Sequence[WallPair]) -> Table:
    table = titled("Throughput of forwarding (wall, stamps on over off)")
    table.add_column("packets", no_wrap=True)
    for name in ("pairs", "off kpps", "on kpps", "on / off", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in FAMILIES:
        found = bench.ratio([pair for pair in pairs if pair.family == family])
        if found is not None:
            table.add_row(
                f"IPv{family}",
                str(found.difference.blocks),
                number(found.off_kpps, 1),
                number(found.on_kpps, 1),
                number(1 + found.difference.effect, 3),
                _ratio_words(found.difference),
            )
    return table


def _edition_table(found: Sequence[editions.Beside]) -> Table:
    table = titled("Editions of the series (exact, instructions more)")
    for name in ("what", "row"):
        table.add_column(name, no_wrap=True)
    for name in ("first, 6.12", "now", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        table.add_row(
            f"{one.what}, IPv{one.family}" if one.family else one.what,
            one.row,
            signed(one.first),
            signed(one.now) if one.significant else f"({signed(one.now)})",
            signed(one.now - one.first) if one.significant else ABSENT,
        )
    table.caption = "The first edition's figures are stored. In brackets: not significant"
    return table


def _ratio_words(one: Difference) -> str:
    if one.low is None or one.high is None:
        return ABSENT
    return f"{number(1 + one.low, 3)} to {number(1 + one.high, 3)}"
