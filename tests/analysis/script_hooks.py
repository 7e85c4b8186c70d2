# SPDX-License-Identifier: GPL-2.0-or-later
"""What scripts have to hook, by the catalogue, and how the kernel numbers its points."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from skblab_analysis.formats.catalogue import Hook, load, version

KERNEL = version("6.12")


def wanted(path_name: str, probe: Callable[[Hook], str]) -> set[str]:
    """Every hook of the points that knows a packet, and of every end, as `probe` writes it."""
    catalogue = load()
    path = next(path for path in catalogue.paths if path.name == path_name)
    hooks = [hook for name in path.points for hook in catalogue.point(name).hooks]
    ends = [hook for end in catalogue.ends for hook in end.hooks]
    return {
        probe(hook)
        for hook in [*hooks, *ends]
        if (hook.skb or hook.napi)
        and hook.fits(KERNEL)
        and (not hook.paths or path_name in hook.paths)
        # Nothing that is received is cut into segments.
        and not (path_name == "receive" and hook.at == "return:__skb_gso_segment")
    }


def kernel_points() -> list[str]:
    """Every point in the order of the kernel's own numbers, from its patch."""
    series = Path(__file__).resolve().parents[2] / "patches" / "v6.12"
    enum = re.compile(r"^\+\tNET_PATH_([A-Z]+),$", re.MULTILINE)
    texts = [file.read_text() for file in sorted(series.glob("*/*.patch"))]
    return next(
        found
        for text in texts
        if (found := [n.lower() for n in enum.findall(text)])[:1] == ["driver"]
    )


def numbered(path_name: str) -> list[tuple[str, str]]:
    """The points of a path that end an interval, with the number of each."""
    points = next(path for path in load().paths if path.name == path_name).points[1:]
    return [(str(kernel_points().index(name)), name) for name in points]
