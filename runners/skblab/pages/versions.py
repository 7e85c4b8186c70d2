# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the page of what versions of Linux cost from stored runs (make versions-page)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from skblab.lab.drawing import find_gnuplot
from skblab_analysis import versions_page
from skblab_analysis.base.errors import EXIT_USAGE, SkblabError


def main(runs: Sequence[str]) -> int:
    """Store the runs that are named as NAME=FILE, and make the page; return the exit status."""
    try:
        versions_page.make(runs, find_gnuplot())
    except SkblabError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
