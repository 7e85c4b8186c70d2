# SPDX-License-Identifier: GPL-2.0-or-later
"""The account of a probe that does not know what was sent: does all that it saw add up?

With the kernel's samples a packet is seen once, at its end, so only those can be unaccounted for
that the probe saw and could not place. With hooks a packet is also seen at its beginning:

    begun = ended + merged + in flight + continued + unwanted at the end (+ what was lost)

The kernel's own histograms count beginnings, too, but of packets that began before the probe they
count the end alone:

    begun + copies + under way before = ended + merged + in flight

A result of which more than a share of the packets is unaccounted for is refused.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.pathlat import (
    KernelCounts,
    Name,
    PathlatDocument,
    PathName,
    Polls,
    Source,
)
from skblab_analysis.layers.rows import Unit

# Per cent of the packets, unless the user says otherwise.
MAX_UNACCOUNTED = 0.1


class Account(BaseModel):
    """Every figure in packets, or paths of packets: one that is forwarded has a path for itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trial: Whole = Field(description="number of the trial in the run")
    path: PathName | None = Field(default=None, description="the only one it saw; null: all")
    unit: Unit = Field(description="unit of the trial's times")
    source: Source = Field(description="where the times come from")
    begun: Whole | None = Field(
        description="paths seen to begin; null where the probe sees only ends"
    )
    ended: Whole = Field(description="paths seen to end")
    merged: Whole = Field(description="packets that went up in another one")
    in_flight: Whole = Field(description="on their way when the probe stopped")
    earlier: Whole = Field(
        default=0, description="more under way when the probe began than when it stopped"
    )
    continued: Whole = Field(description="entered anew while on their way, in a tunnel")
    filtered: Whole = Field(description="ends, or beginnings, of unwanted packets")
    copies: Whole = Field(description="ended paths of further copies of a packet")
    unaccounted: dict[Name, Whole] = Field(
        description="what is known to be missing or misplaced, by cause"
    )

    polls: dict[Name, Whole] = Field(
        default_factory=dict, description="NAPI polls that are in no histogram, by cause"
    )

    @property
    def missing(self) -> int:
        """All that is unaccounted for."""
        return sum(self.unaccounted.values())

    @property
    def share(self) -> float:
        """What is unaccounted for of all that ended; 1 if that is nothing."""
        return self.missing / self.ended if self.ended else float(self.missing > 0)


def account(trial: int, unit: Unit, document: PathlatDocument) -> Account:
    """Return the account of one run of the probe; RefusedError if stamps were off in between."""
    if document.stamps_on.start is False or document.stamps_on.end is False:
        level = "not 2" if document.source == "histograms" else "0"
        raise RefusedError(
            f"the kernel did not stamp packets all the time (net.core.path_trace was {level}); "
            "switch it on, or use --source hooks"
        )
    if document.histograms is not None:
        return _of_histograms(trial, unit, document, document.histograms)
    assert document.samples is not None
    hooks, flags = document.hooks, document.flags
    ends = _ends(document)
    unaccounted = {
        "negative": sum(path.negative or 0 for path in document.paths),
        "overflow": sum(path.overflow or 0 for path in document.paths),
        "unknown": document.samples.unknown,
        "missed": document.samples.missed,
    }
    begun, in_flight, continued = None, 0, 0
    if hooks is not None:
        begun, in_flight = hooks.entered + hooks.began, hooks.in_flight
        continued = hooks.continued
        known = ends + document.merged + in_flight + continued + hooks.filtered_late
        unaccounted |= {
            "replaced": hooks.replaced,
            "refused": hooks.refused,
            # Sent while there was no room: their path has no beginning that was seen.
            "sends_refused": hooks.sends_refused,
            # Of a longer list than is followed: they lack points.
            "bulk_cut": hooks.bulk_cut,
            "kprobes_missed": hooks.kprobes_missed,
            # Beyond those: an end that was not seen, or seen twice.
            "unbalanced": abs(begun - known - hooks.replaced - hooks.refused),
        }
    names = Polls.model_fields
    polls = {one: n for one in names if (n := getattr(document.polls, one, None)) is not None}
    if hooks is not None:
        polls["refused"] = hooks.napis_refused
    return Account(
        trial=trial,
        unit=unit,
        source=document.source,
        begun=begun,
        ended=ends,
        merged=document.merged,
        in_flight=in_flight,
        continued=continued,
        filtered=document.samples.filtered,
        copies=flags.get("copy", 0),
        unaccounted=unaccounted,
        polls=polls,
    )


def _ends(document: PathlatDocument) -> int:
    return sum(sum(path.ends.model_dump().values()) for path in document.paths)


def _of_histograms(
    trial: int, unit: Unit, document: PathlatDocument, counts: KernelCounts
) -> Account:
    begun, copies = counts.entered + counts.sent + counts.reentered, document.flags["copy"]
    ended = _ends(document)
    under_way = begun + copies - ended - document.merged
    return Account(
        trial=trial,
        unit=unit,
        source=document.source,
        begun=begun,
        ended=ended,
        merged=document.merged,
        in_flight=max(under_way, 0),
        earlier=max(-under_way, 0),
        continued=0,
        filtered=0,
        copies=copies,
        unaccounted={
            # In the histograms all the same, with a time that is wrong.
            "negative": document.flags["negative"],
            "overflow": document.flags["overflow"],
            "unsettled": sum(path.unsettled or 0 for path in document.paths),
        },
    )


def refuse(found: Account, per_cent: float) -> None:
    """Raise RefusedError if more than so many per cent are unaccounted for."""
    if 100 * found.share <= per_cent:
        return
    causes = ", ".join(f"{count} {name}" for name, count in found.unaccounted.items() if count)
    mends = {
        "refused": "; --room gives hooks more room",
        "unsettled": "; the kernel counted on while it was read, of which a longer run has less",
    }
    mend = "".join(words for cause, words in mends.items() if found.unaccounted.get(cause))
    raise RefusedError(
        f"{found.missing} packets are unaccounted for ({causes}), more than {per_cent:g} % of the "
        f"{found.ended} that ended; --max-unaccounted allows more{mend}"
    )
