# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers that a user gives in the environment."""

from __future__ import annotations

import math
import os

from skblab_analysis.base.errors import UsageError


def above_zero(variable: str, unit: str, example: int) -> float | None:
    """Return the number in a variable, in that unit; None where it is not set or empty.

    UsageError for what is no number above 0, with the example.
    """
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(
            f"{variable}={text}: expected a number of {unit} above 0, such as {example}"
        )
    return value
