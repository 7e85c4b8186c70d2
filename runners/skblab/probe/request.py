# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of the probe: which packets, how long, which are late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import get_args

from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.pathlat import PathName

# The back end that all options are for.
BPF = "bpf"
# What scripts can be asked as well.
OF_ALL = ("source", "seconds", "path")
# The patched kernel's own histograms as a source, and what they can be asked.
HISTOGRAMS = "histograms"
OF_HISTOGRAMS = ("source", "seconds", "interval", "verbose")
HOOKS = "hooks"
AUTO = "auto"
SOURCES = (AUTO, HISTOGRAMS, HOOKS)
# As pathlat has it: some thirty years.
MOST_SECONDS = 1_000_000_000


@dataclass(frozen=True)
class Request:
    """The probe's own options; None is its default. Times in seconds, but `late` with its unit."""

    source: str | None = None
    seconds: float | None = None
    interval: float | None = None
    device: str | None = None
    netns: str | None = None
    path: str | None = None
    points: str | None = None
    family: int | None = None
    protocol: str | None = None
    port: int | None = None
    address: str | None = None
    by: str | None = None
    late: str | None = None
    run: int | None = None
    late_max: int | None = None
    late_rate: int | None = None
    stop: bool | None = None
    kprobes: bool | None = None
    room: int | None = None
    verbose: bool | None = None

    def every(self, seconds: float) -> Request:
        """Return the request with a document every so often."""
        return replace(self, interval=seconds)

    def of_source(self, *, counts: bool) -> Request:
        """Return it with a source in the place of auto; `counts`: the kernel has histograms.

        They are taken unless something is asked that they do not tell.
        """
        if self.source not in (None, AUTO):
            return self
        asked = [option for option in fields(self) if option.name not in OF_HISTOGRAMS]
        plain = not any(_given(getattr(self, option.name)) for option in asked)
        return replace(self, source=HISTOGRAMS if counts and plain else HOOKS)

    def options(self) -> list[str]:
        """Return them as the probe's command line."""
        found: list[str] = []
        for option in fields(self):
            value = getattr(self, option.name)
            name = "--" + option.name.replace("_", "-")
            if value is True:
                found.append(name)
            elif _given(value):
                # 15 digits are all that are the user's; %g alone has six.
                found += [name, f"{value:.15g}" if isinstance(value, float) else str(value)]
        return found


def limits(request: Request) -> Iterator[str]:
    """Yield what a reader has to know of a request for less than all, in sentences."""
    if request.points:
        points = request.points.replace(",", ", ")
        yield (
            f"The probe looked at these points alone, beside where a path begins and ends, and "
            f"xmit: {points}. A layer may contain several of the others."
        )


def _given(value: object) -> bool:
    """Tell whether an option was asked for; 0 is, and for the probe to refuse."""
    return value is not None and value is not False


def check(request: Request, backend: str, scripts: Sequence[str]) -> None:
    """Raise UsageError unless `backend` is one, and it and the source can do what is requested.

    What only `pathlat` knows, it refuses by itself.
    """
    if backend not in (BPF, *scripts):
        raise UsageError(f"--backend {backend}: expected {', '.join([BPF, *scripts])}")
    _one_of("--source", request.source, SOURCES)
    _one_of("--path", request.path, get_args(PathName))
    check_seconds(request.seconds)
    if backend == BPF:
        if request.source == HISTOGRAMS:
            _refuse(
                *(request, OF_HISTOGRAMS, "the kernel's histograms count all packets"),
                "another --source",
            )
        return
    _refuse(*(request, OF_ALL, f"the scripts of {backend} time all packets"), f"--backend {BPF}")
    if request.source == HISTOGRAMS:
        raise UsageError(
            f"--source {HISTOGRAMS}: no script of {backend} reads them; leave it out, or use "
            f"--backend {BPF}"
        )
    if request.path == "send":
        raise UsageError(
            f"--path send: there is no script of {backend} for it; expected receive or forward, or "
            f"use --backend {BPF}"
        )


def check_seconds(seconds: float | None) -> None:
    """Raise UsageError unless a probe can be asked to run so long."""
    if seconds is not None and not 0 < seconds <= MOST_SECONDS:
        raise UsageError(
            f"--seconds {seconds:g}: expected a number above 0, at most {MOST_SECONDS}"
        )


def _refuse(request: Request, possible: Sequence[str], why: str, instead: str) -> None:
    for option in fields(request):
        if option.name not in possible and _given(getattr(request, option.name)):
            raise UsageError(
                f"--{option.name.replace('_', '-')}: {why}; leave it out, or use {instead}"
            )


def _one_of(option: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise UsageError(f"{option} {value}: expected {', '.join(known[:-1])} or {known[-1]}")
