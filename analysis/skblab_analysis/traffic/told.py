# SPDX-License-Identifier: GPL-2.0-or-later
"""Sentences that flows of packets and of TCP share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skblab_analysis.base.certainty import Change
from skblab_analysis.base.differences import change_text, not_significant
from skblab_analysis.base.words import joined


def differences(what: str, baseline: str, changes: Sequence[Change]) -> Iterator[str]:
    """Yield by how much a flow's settings differ from the baseline, and which do not."""
    significant = [change for change in changes if change.difference.significant]
    if significant:
        order = sorted(significant, key=lambda change: change.difference.share)
        yield f"Its {what} against {baseline}: {joined([change_text(change) for change in order])}."
    yield from not_significant(changes)


def one_block(flow: str, blocks: Mapping[str, int]) -> Iterator[str]:
    """Yield that nothing is known of settings with one block; `blocks`: how many each has."""
    single = [setting for setting, count in blocks.items() if count == 1]
    if single and len(blocks) > 1:
        has = "has" if len(single) == 1 else "have"
        yield (f"{flow}: {joined(single)} {has} one block only: whether it differs is not known.")
