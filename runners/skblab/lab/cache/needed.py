# SPDX-License-Identifier: GPL-2.0-or-later
"""What this checkout needs of the cache: what its commands would use or build now."""

from __future__ import annotations

from skblab.lab import tools
from skblab.lab.cache.kinds import KERNELS, ROOTS, SOURCES, SYSTEMTAP
from skblab.lab.guest import first
from skblab.lab.kernel import build, debian_packages
from skblab.lab.kernel.lines import DEFAULT, LINES, Line
from skblab.lab.kernel.model import FLAVOURS, Request
from skblab.lab.labroot import root as labroot


def requests(line: Line = DEFAULT) -> list[Request]:
    """Return the kernels of a line that commands build without being given a source."""
    patched = ((True, True), (True, False)) if line.patched else ()
    return [
        *(
            Request(flavour=flavour, patches=patches, trace=trace, line=line)
            for flavour in FLAVOURS
            for patches, trace in (*patched, (False, True))
        ),
        *(Request(alternative=patch, line=line) for patch in line.alternatives if patched),
    ]


def needed() -> frozenset[tuple[str, str]]:
    """Return kind and key of what this checkout needs; without a lab root nothing else is known."""
    found = {(ROOTS, labroot.key())}
    made = labroot.existing()
    if made is None:
        return frozenset(found)
    # Of a line that was never fetched nobody has built a kernel.
    here = [line for line in LINES if debian_packages.fetched(line, made)]
    found |= {
        (debian_packages.KIND, debian_packages.key(line, made)) for line in here if line.suite
    }
    for request in (request for line in here for request in requests(line)):
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
        ("init", first.key(made)),
    }
    return frozenset(found)
