# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bpftrace or SystemTap script of probes/ told: a document, its series, its ledger.

A script times one path, or NAPI. What times a path hooks functions: it does not know how a packet
will end when it passes a point, so that a layer counts all packets that passed. In documents of
earlier versions it may have read samples of the kernel, one for each packet at the end of its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import AliasChoices, Field, model_validator

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.whole import Count
from skblab_analysis.formats.ledger import Ledger
from skblab_analysis.formats.pathlat import LayerDistribution, Name, NapiDistribution, PathName
from skblab_analysis.layers.rows import Unit
from skblab_analysis.layers.series import Series, of_layer, of_napi

ScriptName = Literal["receive", "forward", "napi"]
Tool = Literal["bpftrace", "stap"]
# A kernel of ours has samples of NAPI polls, and had samples of packets before.
Source = Literal["samples", "hooks"]


class Begun(Closed):
    """Packets that hooks saw begin, and what became of those that came to no whole path."""

    begun: Count
    again: Count = Field(description="came in anew, by a virtual device")
    merged: Count = Field(description="went up in another one")
    freed: Count = Field(description="freed without an end of this path")
    dropped: Count
    under_way: Count = Field(description="had no end yet when the script stopped")


class ScriptDocument(Closed):
    """One script's figures. Times in nanoseconds, in the buckets of `pathlat`."""

    schema_: Literal["skblab.script/1", "skblab.script/2"] = Field(
        default="skblab.script/2", alias="schema"
    )
    backend: Tool
    script: ScriptName
    source: Source
    kernel: str
    sub_buckets: Literal[16] = 16
    missed: Count = Field(description="events that the tool says it had to skip")
    hooked: Begun | None = Field(default=None, description="of scripts that hook functions")
    merged: Count = Field(
        default=0, description="of earlier versions: packets that went up in those of the samples"
    )
    copies: Count = Field(
        default=0,
        description="of earlier versions: samples of further copies of a packet, with any end",
    )
    left_out: Mapping[Name, Count] = Field(
        default_factory=dict,
        description="of earlier versions: samples in no layer, by end; of the usual one, by flag",
    )
    layers: tuple[LayerDistribution, ...] = ()
    path_time: LayerDistribution | None = Field(
        default=None,
        validation_alias=AliasChoices("path_time", "leg"),
        description="the whole path; `leg` in version 1",
    )
    napi: tuple[NapiDistribution, ...] = ()

    @model_validator(mode="after")
    def _agrees(self) -> ScriptDocument:
        if self.script == "napi" and (self.layers or self.path_time):
            raise ValueError("a script of NAPI has no layers")
        if self.script != "napi" and self.path_time is None:
            raise ValueError("a script of a path has a whole path, were it empty")
        if (self.hooked is not None) != (self.source == "hooks" and self.script != "napi"):
            raise ValueError("scripts that hook a path's functions, and no others, have `hooked`")
        return self


class ScriptsDocument(Closed):
    """All scripts that ran at the same time."""

    schema_: Literal["skblab.scripts/1"] = Field(default="skblab.scripts/1", alias="schema")
    scripts: tuple[ScriptDocument, ...]


def series(trial: int, unit: Unit, document: ScriptDocument) -> list[Series]:
    """Return every histogram of a script, layers in the order of the path."""
    found = [of_napi(trial, unit, figure) for figure in document.napi]
    if document.path_time is None or not document.path_time.count:
        return found
    path: PathName = "forward" if document.script == "forward" else "receive"
    found += [of_layer(trial, unit, path, "layer", layer) for layer in document.layers]
    return [*found, of_layer(trial, unit, path, "path", document.path_time)]


def ledgers(
    first: int, unit: Unit, documents: Sequence[ScriptDocument]
) -> list[tuple[ScriptDocument, Ledger]]:
    """Return the ledger of each script of a path, with trials from `first` on.

    The first has what scripts of NAPI missed, whose figures are the first trial's as well.
    """
    timed = [document for document in documents if document.path_time is not None]
    found = [ledger(first + number, unit, document) for number, document in enumerate(timed)]
    polls = [document.missed for document in documents if document.path_time is None]
    if found and polls:
        unaccounted = {**found[0].unaccounted, "polls_missed": sum(polls)}
        found[0] = found[0].model_copy(update={"unaccounted": unaccounted})
    return list(zip(timed, found, strict=True))


def ledger(trial: int, unit: Unit, document: ScriptDocument) -> Ledger:
    """Return the ledger of a script of a path.

    One that hooks functions sees a packet begin as well: begun = whole paths + merged + freed +
    dropped + under way + again; the difference is unaccounted for.
    """
    assert document.path_time is not None
    whole, hooked = document.path_time.count, document.hooked
    unaccounted = {"missed": document.missed}
    if document.source == "samples":
        unaccounted |= {name: document.left_out.get(name, 0) for name in ("negative", "overflow")}
    ended = whole + sum(document.left_out.values())
    if hooked is not None:
        ended = whole + hooked.freed + hooked.dropped
        known = ended + hooked.merged + hooked.under_way + hooked.again
        unaccounted["unbalanced"] = abs(hooked.begun - known)
    return Ledger(
        trial=trial,
        path="forward" if document.script == "forward" else "receive",
        unit=unit,
        source=document.source,
        begun=hooked.begun if hooked else None,
        ended=ended,
        merged=hooked.merged if hooked else document.merged,
        in_flight=hooked.under_way if hooked else 0,
        continued=hooked.again if hooked else 0,
        filtered=0,
        copies=document.copies,
        unaccounted=unaccounted,
    )
