# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe, attached to a target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from skblab.machine.reading import Reading, started
from skblab.probe.targets import Target

# The kernel verifies some fifty programs first (bpf_check()), then each kprobe waits until every
# thread has had its turn. An emulated CPU is slow, and gets little of a host that is busy.
EMULATED_PATIENCE = 5


class Wanted(Protocol):
    """What is asked of a probe."""

    @property
    def verbose(self) -> bool | None:
        """Whether all is wanted that is said of a refusal."""

    def options(self) -> Sequence[str]:
        """Return it as the probe's command line."""


@contextlib.contextmanager
def attached(
    target: Target,
    request: Wanted,
    lines: Callable[[str], None],
    heard: Callable[[str], None] | None = None,
) -> Iterator[Reading]:
    """Have the probe attached; UsageError with its own words if it refuses.

    `heard`, if given, is called with what it says meanwhile; and, as was asked for by `verbose`,
    with what libbpf says of a refusal.
    """
    argv = [target.program, *request.options()]
    late = f"the probe did not attach on {target.name}"
    emulated = target.guest is not None and target.guest.spec.accel == "tcg"
    patience = EMULATED_PATIENCE if emulated else 1
    others = heard if request.verbose else None
    with started(target.transport, argv, late, patience, others) as running:
        yield Reading(running, lines, patience=patience, heard=heard)
