# SPDX-License-Identifier: GPL-2.0-or-later
"""What scripts have to hook, by the catalogue."""

from __future__ import annotations

from collections.abc import Callable

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
