# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers with a fraction as tables have them, bounded: beyond that a table is damaged.

Sums, quotients and per cent of such numbers are numbers; those of 1e308 and 1e-308 are none.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, FiniteFloat, NonNegativeFloat, PositiveFloat

from skblab_analysis.base.whole import MOST

LEAST = 1e-18


def _bounded(number: float) -> float:
    if number and not LEAST <= number <= MOST:
        raise ValueError(f"expected a number from {LEAST:g} to {MOST:.1e}")
    return number


def _signed(number: float) -> float:
    if abs(number) > MOST:
        raise ValueError(f"expected a number from {-MOST:.1e} to {MOST:.1e}")
    # What is smaller is left of rounding: the difference of two of these.
    return number if abs(number) >= LEAST else 0.0


Real = Annotated[NonNegativeFloat, AfterValidator(_bounded)]
PositiveReal = Annotated[PositiveFloat, AfterValidator(_bounded)]
SignedReal = Annotated[FiniteFloat, AfterValidator(_signed)]
