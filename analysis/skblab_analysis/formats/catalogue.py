# SPDX-License-Identifier: GPL-2.0-or-later
"""The catalogue of layers (probes/catalogue.toml): paths, points, and where probes find them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import (
    Field,
    NonNegativeInt,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from skblab_analysis.base import textfile, tomlfile
from skblab_analysis.base.checked import Closed, RecordError, parse

FILE = Path(__file__).resolve().parents[3] / "probes" / "catalogue.toml"
# The oldest kernel that hooks without `since` are for.
OLDEST = "5.15"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=20)]
Sentence = Annotated[str, StringConstraints(pattern=r"^[A-Z].*[.]$", max_length=400)]
Release = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+$")]
Unit = Literal["packet", "bundle", "segment", "message", "poll"]
Protocol = Literal["udp", "tcp", "sctp"]
PROTOCOLS: tuple[Protocol, ...] = ("udp", "tcp", "sctp")
Family = Literal[4, 6]
Kind = Literal["tracepoint", "entry", "return"]


def version(text: str) -> tuple[int, int]:
    """Return the two numbers of "6.12" or of a release such as "6.12.117-skblab".

    RecordError if `text` does not begin with two numbers.
    """
    head = text.split("-")[0].split(".")
    try:
        return int(head[0]), int(head[1])
    except (ValueError, IndexError) as error:
        raise RecordError(f"{text!r} is no kernel version; expected such as 6.12") from error


class Argument(Closed):
    """Which argument of a function or tracepoint is the packet (or the NAPI instance)."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*$")] = Field(
        description="its name in the kernel, or return for what the function returned"
    )
    index: NonNegativeInt | None = Field(default=None, description="its number, from 0")
    list: bool = Field(default=False, description="it is a list of packets, and the first is meant")

    @model_validator(mode="after")
    def _numbered(self) -> Self:
        if (self.index is None) != (self.name == "return"):
            raise ValueError(f"{self.name}: expected an index, or the name return and none")
        return self


class Instead(Closed):
    """Where kprobes see a point for which they are no good at the hook's own place."""

    at: Annotated[str, StringConstraints(pattern=r"^entry:[a-z0-9_]+$")] = Field(
        description="entry:FUNCTION"
    )
    skb: Argument = Field(description="the packet")


class Hook(Closed):
    """A place in the kernel where a probe can see a point."""

    at: Annotated[
        str,
        StringConstraints(
            pattern=r"^(tracepoint:[a-z0-9_]+:[a-z0-9_]+|(entry|return):[a-z0-9_]+)$"
        ),
    ] = Field(description="tracepoint:GROUP:NAME, entry:FUNCTION or return:FUNCTION")
    skb: Argument | None = Field(default=None, description="the packet")
    napi: Argument | None = Field(default=None, description="the NAPI instance")
    task: bool = Field(
        default=False, description="there is no packet yet: the running task is known, and the time"
    )
    paths: tuple[Name, ...] = Field(
        default=(), description="paths that it is for; empty: all that have the point"
    )
    families: tuple[Family, ...] = Field(default=(4, 6), description="4: IPv4, 6: IPv6")
    protocols: tuple[Protocol, ...] = Field(
        default=PROTOCOLS, description="transport protocols that pass here"
    )
    since: Release = Field(default=OLDEST, description="first kernel that has it")
    before: Release | None = Field(default=None, description="first kernel that has it no more")
    kprobe: Instead | None = Field(
        default=None, description="where kprobes see it, if not there: many sleep in the function"
    )
    note: str = Field(default="", description="what to keep in mind")

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if [self.skb is None, self.napi is None, not self.task].count(False) != 1:
            raise ValueError(f"{self.at}: expected either skb, napi or task = true")
        if self.subject and self.subject.name == "return" and self.kind != "return":
            raise ValueError(f"{self.at}: only return: hooks know what a function returned")
        if self.before and version(self.before) <= version(self.since):
            raise ValueError(f"{self.at}: before {self.before} is not after since {self.since}")
        return self

    @property
    def kind(self) -> Kind:
        """What kind of place it is."""
        return cast(Kind, self.at.split(":")[0])

    @property
    def subject(self) -> Argument | None:
        """The argument that it is about: the packet, or the NAPI instance."""
        return self.skb or self.napi

    @property
    def target(self) -> str:
        """The function's or the tracepoint's name, without its group."""
        return self.at.split(":")[-1]

    def fits(self, kernel: tuple[int, int]) -> bool:
        """Tell whether kernels of this version have it."""
        return version(self.since) <= kernel and (
            self.before is None or kernel < version(self.before)
        )


class Point(Closed):
    """A point that packets pass, and the layer (the interval) that ends there."""

    name: Name
    sentence: Sentence = Field(description="what the point is")
    layer: Annotated[str, StringConstraints(pattern=r"^([A-Z].*[.])?$")] = Field(
        description="what the interval up to it contains; empty where a path begins"
    )
    unit: Unit = Field(description="what is counted here")
    patched: bool = Field(
        description="a kernel with our series counts the layer up to it by itself"
    )
    hooks: tuple[Hook, ...] = Field(description="where probes see it on any kernel")
    absent: str = Field(default="", description="why probes cannot see it")

    @model_validator(mode="after")
    def _found_or_said(self) -> Self:
        if bool(self.hooks) == bool(self.absent):
            raise ValueError(f"{self.name}: expected hooks, or the reason why there are none")
        return self


class PathOfPoints(Closed):
    """A way through the stack."""

    name: Name
    sentence: Sentence
    points: tuple[Name, ...] = Field(min_length=2, description="in the order of the path")
    usual_end: Name = Field(description="how it ends if all is well")


class End(Closed):
    """Where a packet ends, so that the next one at its address is not taken for it."""

    name: Name
    sentence: Sentence
    hooks: tuple[Hook, ...] = Field(min_length=1)


class Catalogue(Closed):
    """Every path, every point, every hook."""

    document: Literal["skblab.catalogue/1"] = Field(alias="schema")
    paths: tuple[PathOfPoints, ...] = Field(alias="path", min_length=1)
    points: tuple[Point, ...] = Field(alias="point", min_length=1)
    ends: tuple[End, ...] = Field(alias="end", min_length=1)

    @field_validator("paths", "points", "ends")
    @classmethod
    def _once(
        cls, found: tuple[PathOfPoints | Point | End, ...], info: ValidationInfo
    ) -> tuple[PathOfPoints | Point | End, ...]:
        twice = [
            name for name, count in Counter(layer.name for layer in found).items() if count > 1
        ]
        if twice:
            raise ValueError(f"more than one of {info.field_name} is named {', '.join(twice)}")
        return found

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        points = {point.name: point for point in self.points}
        used = [name for path in self.paths for name in path.points]
        unknown, unused = sorted(set(used) - set(points)), sorted(set(points) - set(used))
        if unknown or unused:
            raise ValueError(
                f"points of paths and points differ: unknown {unknown}, in no path {unused}"
            )
        for path in self.paths:
            for number, name in enumerate(path.points):
                if bool(points[name].layer) != bool(number):
                    want = "what its layer contains" if number else "no layer"
                    raise ValueError(
                        f"point {name} is number {number} of path {path.name}: expected {want}"
                    )
        for point in self.points:
            having = {path.name for path in self.paths if point.name in path.points}
            for hook in point.hooks:
                if not having.issuperset(hook.paths):
                    raise ValueError(
                        f"point {point.name}, {hook.at}: for paths {', '.join(hook.paths)}, "
                        f"but the point is of {', '.join(sorted(having))}"
                    )
        return self

    @property
    def hooked(self) -> tuple[Point | End, ...]:
        """Return all that has hooks: points and ends."""
        return (*self.points, *self.ends)

    def point(self, name: str) -> Point:
        """Return the point of that name, or raise RecordError."""
        for point in self.points:
            if point.name == name:
                return point
        known = ", ".join(point.name for point in self.points)
        raise RecordError(f"no point is named {name!r}; there are {known}")


def load(file: Path = FILE) -> Catalogue:
    """Read the catalogue; UsageError says in one line what is wrong with it, and where."""
    what = f"the catalogue {file}"
    return parse(Catalogue, tomlfile.parse(textfile.read(file, "the catalogue"), what), what)
