# SPDX-License-Identifier: GPL-2.0-or-later
"""All differences that a report shows, as a table for other programs.

It is made of the other tables whenever a report is, and skblab reads it nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from skblab_analysis.base.certainty import AGAIN, Change
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Row, Stored, Text
from skblab_analysis.base.whole import Whole

BY_NOISE = "by column `noise_unit`"
# Unit of what is compared by its logarithm.
LOGARITHM = "ln"


class ComparisonRow(Row):
    """What a setting differs from the baseline in one figure."""

    measure: Annotated[
        Text,
        Column(NO_UNIT, "`instructions`, `throughput`, `latency`, `cpu` or `layers`."),
    ]
    traffic: Annotated[Text, Column(NO_UNIT, "What was sent; empty where a run has one traffic.")]
    rate: Annotated[
        Whole | None, Column("packets/s", "Rate that it was measured at, where one was given.")
    ]
    figure: Annotated[
        Text,
        Column(
            NO_UNIT,
            "What is compared: the goal of a search, `p99`, late packets, a layer, or the only "
            "figure of its measure.",
        ),
    ]
    baseline: Annotated[Text, Column(NO_UNIT, "Setting that it is compared with.")]
    setting: Annotated[
        Text,
        Column(NO_UNIT, "Setting that differs; `baseline again`: the baseline under another name."),
    ]
    effect: Annotated[float, Column(BY_ROW, "Setting less baseline.")]
    low: Annotated[
        float | None, Column(BY_ROW, "Lower end of its 95 % interval; null: of one block.")
    ]
    high: Annotated[float | None, Column(BY_ROW, "Upper end of it.")]
    unit: Annotated[Text, Column(NO_UNIT, "Unit of the figure; 1: a share of packets.")]
    of: Annotated[float, Column(BY_ROW, "The baseline's figure; of instructions with the tester.")]
    share: Annotated[
        float | None,
        Column(
            "1",
            "`effect` as part of the baseline's figure; of instructions as part of its path, "
            "without the tester, if that was measured; null: that is 0.",
        ),
    ]
    share_with_tester: Annotated[
        float | None,
        Column("1", "Of instructions, `effect` as part of `of`; null: another figure."),
    ]
    noise: Annotated[
        float | None, Column(BY_NOISE, "Half of Student's interval; null: of one block.")
    ]
    resolution: Annotated[
        float, Column(BY_NOISE, "What half of the interval is at least, however blocks agree.")
    ]
    noise_unit: Annotated[
        Text,
        Column(NO_UNIT, "`unit`, or `ln`: of the logarithm, by which rates and times differ."),
    ]
    detectable: Annotated[
        float | None,
        Column(
            BY_ROW,
            "Smallest detectable difference: one so great is significant in 80 % of such runs.",
        ),
    ]
    blocks: Annotated[Whole, Column(NO_UNIT, "Blocks that both have a figure in.")]
    significant: Annotated[
        bool | None,
        Column(NO_UNIT, "Whether it is significant; null: not known, see `why`."),
    ]
    why: Annotated[
        Text,
        Column(
            NO_UNIT,
            "Why it is not: `one block`, `some blocks` (others have no figure), `resolution` or "
            "`scatter`, whichever is wider; empty: it is significant.",
        ),
    ]
    identical: Annotated[
        bool | None,
        Column(
            NO_UNIT,
            "Whether the setting is the baseline's own state, by the readings of `settings`; null: "
            "not known, for one of the baseline's or the setting's own is missing.",
        ),
    ]


DERIVED = (
    Stored(
        ComparisonRow,
        "comparison",
        "what one setting differs from the baseline in one figure. Derived from the other tables "
        "whenever a report is made, and read by nothing in skblab",
    ),
)
[COMPARISON] = DERIVED


def rows(found: Iterable[Comparison], alike: Mapping[str, bool | None]) -> list[ComparisonRow]:
    """Return a row for each difference; `alike` says which settings are the baseline's state."""
    return [
        # The baseline under another name is no setting of its own.
        _row(comparison, change, True if change.setting == AGAIN else alike.get(change.setting))
        for comparison in found
        for change in comparison.changes
    ]


def _row(one: Comparison, change: Change, identical: bool | None) -> ComparisonRow:
    found = change.difference
    return ComparisonRow(
        measure=one.measure,
        traffic=one.traffic,
        rate=one.rate,
        figure=one.figure,
        baseline=one.baseline,
        setting=change.setting,
        effect=found.effect * found.scale,
        low=found.in_unit(found.low),
        high=found.in_unit(found.high),
        unit=one.unit,
        of=found.of,
        share=one.share(found),
        share_with_tester=found.effect / found.of if one.path is not None and found.of else None,
        noise=found.noise,
        resolution=found.resolution,
        noise_unit=LOGARITHM if found.relative else one.unit,
        detectable=found.in_unit(found.detectable),
        blocks=found.blocks,
        significant=found.significant,
        why=found.why or "",
        identical=identical,
    )
