# SPDX-License-Identifier: GPL-2.0-or-later
"""A figure and its difference from the baseline, for other programs: declared once.

`--json` has both of every figure (`formats/summary.py`), `comparison.parquet` a row for each figure
that has a difference (`comparison/rows.py`): the same names, values, units and sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from skblab_analysis.base.certainty import AGAIN, Difference, Why
from skblab_analysis.base.comparison import Comparison, Measure, Unit
from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Row
from skblab_analysis.base.whole import Whole

BY_NOISE = "by column `noise_unit`"
# Unit of what is compared by its logarithm.
LOGARITHM = "ln"


class OfFigure(Row):
    """What names a figure of a run."""

    measure: Annotated[Measure, Column(NO_UNIT, "What was measured.")]
    figure: Annotated[
        str, Column(NO_UNIT, "What it is, such as `path`, `throughput`, `p99` or `busy`.")
    ]
    part: Annotated[
        str,
        Column(NO_UNIT, "Of what it is: goal of a search, layer, threshold, load; empty: of all."),
    ] = ""
    unit: Annotated[Unit, Column(NO_UNIT, "Unit of the figure; 1: a share of packets.")]
    setting: Annotated[
        str,
        Column(NO_UNIT, "Setting that it is of; `baseline again`: the baseline, another time."),
    ]
    traffic: Annotated[
        str, Column(NO_UNIT, "What was sent; empty where a run has one traffic.")
    ] = ""
    rate: Annotated[
        Whole | None, Column("packets/s", "Rate that it was measured at, where one was given.")
    ] = None

    @property
    def key(self) -> tuple[object, ...]:
        """All of this: no two figures of a run have the same."""
        return tuple(getattr(self, name) for name in OfFigure.model_fields)


class Compared(Row):
    """What a figure differs from the baseline's; see docs/explain/method.md."""

    baseline: Annotated[str, Column(NO_UNIT, "Setting that it is compared with.")]
    of: Annotated[float, Column(BY_ROW, "The baseline's figure.")]
    effect: Annotated[float, Column(BY_ROW, "The figure less the baseline's.")]
    low: Annotated[
        float | None, Column(BY_ROW, "Lower end of its 95 % interval; null: of one block.")
    ]
    high: Annotated[float | None, Column(BY_ROW, "Upper end of it.")]
    share: Annotated[float | None, Column("1", "`effect` as part of `of`; null: that is 0.")]
    share_with_tester: Annotated[
        float | None,
        Column(
            "1",
            "Of the instructions of a path, `effect` as part of the baseline's path and tester "
            "together; null: another figure.",
        ),
    ]
    noise: Annotated[
        float | None, Column(BY_NOISE, "Half of Student's interval; null: of one block.")
    ]
    resolution: Annotated[
        float, Column(BY_NOISE, "What half of the interval is at least, however blocks agree.")
    ]
    noise_unit: Annotated[
        str,
        Column(NO_UNIT, "`unit`, or `ln`: of the logarithm, by which rates and times differ."),
    ]
    detectable: Annotated[
        float | None,
        Column(
            BY_ROW,
            "Smallest detectable difference: one so great is significant in 80 % of such runs; "
            "null: of one block.",
        ),
    ]
    blocks: Annotated[Whole, Column(NO_UNIT, "Blocks that both have a figure in.")]
    significant: Annotated[
        bool | None,
        Column(NO_UNIT, "Whether it is significant; null: not known, see `why`."),
    ]
    why: Annotated[
        Literal["", Why],
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


def compared(
    found: Comparison, alike: Mapping[str, bool | None]
) -> list[tuple[OfFigure, Compared]]:
    """Return each difference of a comparison, and of which figure it is.

    `alike` says which settings are the baseline's own state; None, or not there: not known.
    """
    made = []
    for change in found.changes:
        figure = OfFigure(
            measure=found.measure,
            figure=found.figure,
            part=found.part,
            unit=found.unit,
            setting=change.setting,
            traffic=found.traffic,
            rate=found.rate,
        )
        # The baseline under another name is no setting of its own.
        same = True if change.setting == AGAIN else alike.get(change.setting)
        made.append((figure, _compared(found, change.difference, same)))
    return made


def _compared(of: Comparison, found: Difference, identical: bool | None) -> Compared:
    return Compared(
        baseline=of.baseline,
        of=found.of if of.path is None else of.path,
        effect=found.effect * found.scale,
        low=found.in_unit(found.low),
        high=found.in_unit(found.high),
        share=of.share(found),
        share_with_tester=found.effect / found.of if of.path is not None and found.of else None,
        noise=found.noise,
        resolution=found.resolution,
        noise_unit=LOGARITHM if found.relative else of.unit,
        detectable=found.in_unit(found.detectable),
        blocks=found.blocks,
        significant=found.significant,
        why=found.why or "",
        identical=identical,
    )
