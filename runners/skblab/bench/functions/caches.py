# SPDX-License-Identifier: GPL-2.0-or-later
"""The caches of a processor that a profile simulates: read from a file of geometries.

chosen = caches.named("epyc-7763")          # of probes/functions/caches.toml, or FILE:NAME
chosen.words                                # as probes/functions/caches.h takes them
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, RootModel, model_validator

from skblab.lab import paths
from skblab_analysis.base import tomlfile
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats import memory

FILE = "probes/functions/caches.toml"
KIB = 1024
# As caches.h has them.
MOST_WAYS, MOST_KIB = 64, 1 << 20


class Cache(Closed):
    """One cache."""

    kib: int = Field(gt=0, le=MOST_KIB, description="size in KiB")
    ways: int = Field(gt=0, le=MOST_WAYS, description="lines of one set")


class Geometry(Closed):
    """The caches of one core."""

    title: str = Field(description="the processor, in words")
    source: str = Field(description="where the figures are from")
    line: int = Field(ge=16, le=4096, description="bytes of a line, a power of two")
    code: Cache
    data: Cache
    second: Cache | None = None
    third: Cache | None = None

    @model_validator(mode="after")
    def _whole(self) -> Geometry:
        if self.line & (self.line - 1):
            raise ValueError(f"line = {self.line}: expected a power of two, such as 64")
        if self.third and not self.second:
            raise ValueError("there is a third level and no second: call the first of them second")
        for name, cache in zip(memory.CACHES, self.levels, strict=True):
            if cache and cache.kib * KIB % (self.line * cache.ways):
                raise ValueError(
                    f"{name}: {cache.kib} KiB are no whole sets of {cache.ways} ways of "
                    f"{self.line} bytes"
                )
        return self

    @property
    def levels(self) -> tuple[Cache | None, ...]:
        """All of them, in the order of caches.h."""
        return self.code, self.data, self.second, self.third


@dataclass(frozen=True)
class Chosen:
    """What --caches names."""

    word: str
    geometry: Geometry

    @property
    def words(self) -> str:
        """The geometry as the plugin takes it."""
        sizes = (f"{one.kib * KIB}.{one.ways}" if one else "0.0" for one in self.geometry.levels)
        return ":".join([str(self.geometry.line), *sizes])

    @property
    def described(self) -> memory.Simulated:
        """The same, for a record."""
        described = {
            name: memory.Cache(bytes=one.kib * KIB, ways=one.ways)
            for name, one in zip(memory.CACHES, self.geometry.levels, strict=True)
            if one
        }
        return memory.Simulated(
            title=self.geometry.title,
            source=self.geometry.source,
            line=self.geometry.line,
            **described,
        )


class Processors(RootModel[dict[str, Geometry]]):
    """A file of them, by name."""


def named(word: str, option: str = "--caches") -> Chosen:
    """Return the caches of a processor: NAME of ours, or FILE:NAME; UsageError in one line."""
    place, colon, name = word.rpartition(":")
    file = Path(place).expanduser() if colon else paths.tree() / FILE
    known = tomlfile.read(Processors, file, "the file of caches").root
    if name not in known:
        has = ", ".join(known) or "none"
        raise UsageError(f"{option} {word}: no such processor in {file}; it has: {has}")
    return Chosen(word, known[name])
