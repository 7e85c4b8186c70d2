# SPDX-License-Identifier: GPL-2.0-or-later
"""What a soak's guest reports, and whether that is good."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError, one_line

Count = Annotated[int, Field(ge=0)]
# As /proc/sys/kernel/tainted has it.
Taint = Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
# A packet from one namespace by a router to another is sent, forwarded, received, and comes in
# twice. Neighbours are asked for as well, so more may come in.
TOTALS = ("send total", "forward total", "receive total")
# Twenty loads share an emulated guest: in a phase shorter than this, or a soak shorter than
# twice this, one of them may not have had its turn.
JUDGED_SECONDS = 20
# The taint of a report of KMSAN's (TAINT_BAD_PAGE).
BAD_PAGE = 1 << 5
# SCTP that loses its first packets to faults waits for seconds, perhaps for a whole phase.
JUDGED_PACKETS = 100


class Counts(Closed):
    """One kind of load: packets (KiB of streams, sockets of sniffers), and calls that failed."""

    sent: Count
    received: Count
    errors: Count


class PhaseResult(Closed):
    """One phase: `faults` says in words what was made to fail."""

    name: str
    seconds: float
    faults: str
    steps: Count
    left_out: Count
    loads: dict[str, Counts]


class Calm(Closed):
    """The count in peace after it all.

    `passed`: packets by path and point, None without stamps. In soaks of the first edition of the
    series it was `samples`, by path and end.
    """

    sent: Count
    received: Count
    passed: dict[str, Count] | None = None
    samples: dict[str, Count] | None = None


class SoakResult(Closed):
    """What the guest reports at its end."""

    phases: tuple[PhaseResult, ...]
    done: dict[str, int]
    refused: dict[str, int]
    absent: dict[str, int]
    examples: dict[str, str]
    stuck: tuple[str, ...]
    calm: Calm
    left_devices: tuple[str, ...]
    leaks: str | None
    # Accesses of memory that KCSAN watched for another one; soaks before it have none.
    watched: Count | None = None
    taint: tuple[Taint, Taint]


def parse(text: str) -> SoakResult:
    """Return the guest's report; SkblabError if it is none."""
    last = text.strip().splitlines()[-1:] or [""]
    try:
        return SoakResult.model_validate_json(last[0])
    except ValidationError as error:
        raise SkblabError(f"the soak's report is damaged: {one_line(str(error), 200)}") from error


def complaints(
    result: SoakResult, kernel: list[str], patched: bool, others: list[str]
) -> list[str]:
    """Return everything that speaks against a soak, `kernel` being what its console told.

    `others` are reports that do not: they are of no line of the series.
    """
    found = [f"the kernel said: {text}" for text in kernel]
    before, after = result.taint
    allowed = BAD_PAGE if any(title.startswith("KMSAN") for title in others) else 0
    if int(before) | allowed != int(after) | allowed:
        found.append(f"the kernel's taint went from {before} to {after}")
    if result.leaks:
        first = result.leaks.strip().splitlines()
        found.append(f"kmemleak: {sum('unreferenced' in line for line in first)} objects")
    if result.watched == 0:
        found.append("KCSAN watched nothing")
    if result.left_devices:
        found.append(f"devices left: {', '.join(result.left_devices)}")
    if result.stuck:
        found.append(f"loads that hang: {', '.join(result.stuck)}")
    return found + _silent(result.phases) + _calm(result.calm, patched)


def _silent(phases: tuple[PhaseResult, ...]) -> list[str]:
    """Return which kinds of load did not get through, in a phase or in the whole soak."""
    found = []
    kinds = phases[0].loads if phases else {}
    never = [name for name in kinds if not any(phase.loads[name].received for phase in phases)]
    if never and sum(phase.seconds for phase in phases) >= 2 * JUDGED_SECONDS:
        found.append(f"nothing ever arrived by: {', '.join(never)}")
    for phase in phases:
        if phase.seconds < JUDGED_SECONDS:
            continue
        silent = [
            name
            for name, counts in phase.loads.items()
            if not counts.received and not 0 < counts.sent + counts.errors < JUDGED_PACKETS
        ]
        silent = [name for name in silent if name not in never]
        if silent:
            found.append(f"in the phase {phase.name!r} nothing arrived by: {', '.join(silent)}")
    return found


def _calm(calm: Calm, patched: bool) -> list[str]:
    found = []
    if calm.received != calm.sent:
        found.append(f"in peace {calm.sent} packets were sent and {calm.received} received")
    if calm.passed is None:
        if patched:
            found.append("the patched kernel has no path stamps")
        return found
    least = dict.fromkeys(TOTALS, calm.sent) | {"in stack": 2 * calm.sent}
    for name, count in least.items():
        if calm.passed.get(name, 0) < count:
            found.append(
                f"in peace the kernel counted {calm.passed.get(name, 0)} packets in {name!r}, not "
                f"{count}"
            )
    return found
