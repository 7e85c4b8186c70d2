# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures of a study, beside ours: a CSV file, and as parameters of a run's plan.

Of its columns `experiment` names a row. Those that say something of inter-arrival times, in
microseconds, are known by their names, such as `iat_max_us`; others are let through.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis.base import textfile
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import UsageError

COLUMNS = {
    "iat_min_us": "least",
    "iat_median_us": "p50",
    "iat_max_us": "most",
    "iat_sigma_us": "deviation",
}
_PARAMETER = re.compile(r"published (least|p50|most|deviation) of (.+)")
NANOSECONDS = 1000


@dataclass(frozen=True)
class Published:
    """A study's inter-arrival times, in ns, by the names of a row's columns."""

    times: Mapping[str, float]


def read(file: Path) -> dict[str, Published]:
    """Return a file's figures by experiment; UsageError says what is wrong with it."""
    lines = textfile.read(file, "the published figures").splitlines()
    kept = [(at, line) for at, line in enumerate(lines, 1) if not line.startswith("#")]
    reader = csv.DictReader(line for _, line in kept)
    rows = [(kept[reader.line_num - 1][0], row) for row in reader]
    if not rows or "experiment" not in rows[0][1]:
        raise UsageError(f"the published figures {file}: expected a column `experiment`")
    found: dict[str, Published] = {}
    for number, row in rows:
        try:
            times = {
                name: float(row[column]) * NANOSECONDS
                for column, name in COLUMNS.items()
                if row.get(column)
            }
        except ValueError as error:
            raise UsageError(f"the published figures {file}, line {number}: {error}") from None
        found[row["experiment"]] = Published(times)
    return found


def parameters(published: Mapping[str, Published]) -> dict[str, float]:
    """Return figures by setting as parameters of a plan, which `of_parameters` reads."""
    return {
        f"published {name} of {setting}": value
        for setting, figures in published.items()
        for name, value in figures.times.items()
    }


def of_parameters(known: Mapping[str, str | int | float | bool]) -> dict[str, Published]:
    """Return the figures of a plan's parameters by setting; RecordError if one is no number."""
    found: dict[str, dict[str, float]] = {}
    for name, value in known.items():
        if (told := _PARAMETER.fullmatch(name)) is None:
            continue
        if isinstance(value, str):
            raise RecordError(f"run.json: {name} is {value!r}: expected nanoseconds")
        found.setdefault(told[2], {})[told[1]] = float(value)
    return {setting: Published(times) for setting, times in found.items()}
