# SPDX-License-Identifier: GPL-2.0-or-later
"""What this checkout needs of the cache: what its commands would use or build now."""

from __future__ import annotations

from skblab.lab import paths, tools
from skblab.lab.cache.kinds import KERNELS, ROOTS, SOURCES, SYSTEMTAP
from skblab.lab.kernel import build
from skblab.lab.kernel.model import FLAVOURS, Request
from skblab.lab.labroot import root as labroot


def requests() -> list[Request]:
    """Return the kernels that commands build without being given a source."""
    folder = paths.tree() / "patches" / "v6.12" / "alternatives"
    return [
        *(
            Request(flavour=flavour, patches=patches, trace=trace)
            for flavour in FLAVOURS
            for patches, trace in ((True, True), (True, False), (False, True))
        ),
        *(Request(alternative=patch) for patch in sorted(folder.glob("*.patch"))),
    ]


def needed() -> frozenset[tuple[str, str]]:
    """Return kind and key of what this checkout needs; without a lab root nothing else is known."""
    found = {(ROOTS, labroot.key())}
    made = labroot.existing()
    if made is None:
        return frozenset(found)
    for request in requests():
        plan = build.plan(request, made)
        found |= {
            (KERNELS, plan.key),
            (SOURCES, plan.source.origin),
            ("tools", tools.key(made, plan.key)),
            (SYSTEMTAP, plan.key),
        }
    found |= {
        ("tools", tools.programs_key(made)),
        ("rust", tools.rust_key(made)),
        ("bpf", tools.bpf_key(made)),
    }
    return frozenset(found)
