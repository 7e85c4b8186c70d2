# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers with a fraction: what a table may have of them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from skblab_analysis.base.real import LEAST, PositiveReal, Real
from skblab_analysis.base.whole import MOST

REAL, POSITIVE = TypeAdapter(Real), TypeAdapter(PositiveReal)


@pytest.mark.parametrize("number", [LEAST, 0.5, 1e9, 9.2e18])
def test_what_is_measured_is_taken_as_it_is(number: float) -> None:
    assert REAL.validate_python(number) == POSITIVE.validate_python(number) == number


@pytest.mark.parametrize("number", [5e-324, LEAST / 2, 2.0 * MOST, 1e308, -1.0])
def test_what_is_beyond_is_refused(number: float) -> None:
    for kind in (REAL, POSITIVE):
        with pytest.raises(ValidationError):
            kind.validate_python(number)


def test_nothing_is_a_number_but_no_positive_one() -> None:
    assert REAL.validate_python(0.0) == 0
    with pytest.raises(ValidationError):
        POSITIVE.validate_python(0.0)
