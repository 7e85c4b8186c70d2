# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of the probe: which packets, how long, which are late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from skblab.errors import UsageError

# The back end that all options are for.
BPF = "bpf"
# What scripts can be asked as well.
OF_ALL = ("source", "seconds", "path")
# The patched kernel's own histograms as a source, and what they can be asked.
HISTOGRAMS = "histograms"
OF_HISTOGRAMS = ("source", "seconds", "interval")


@dataclass(frozen=True)
class Request:
    """The probe's own options; None is its default. Times in seconds, but `late` with its unit."""

    source: str | None = None
    seconds: float | None = None
    interval: float | None = None
    device: str | None = None
    netns: str | None = None
    path: str | None = None
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

    def every(self, seconds: float) -> Request:
        """Return the request with a document every so often."""
        return replace(self, interval=seconds)

    def options(self) -> list[str]:
        """Return them as the probe's command line."""
        found: list[str] = []
        for one in fields(self):
            value = getattr(self, one.name)
            name = "--" + one.name.replace("_", "-")
            if value is True:
                found.append(name)
            elif _given(value):
                found += [name, f"{value:g}" if isinstance(value, float) else str(value)]
        return found


def _given(value: object) -> bool:
    # 0 is a value.
    return value is not None and value is not False


def check(request: Request, backend: str, scripts: Sequence[str]) -> None:
    """Raise UsageError unless `backend` is one, and it and the source can do what is requested."""
    if backend == BPF:
        if request.source == HISTOGRAMS:
            _refuse(
                *(request, OF_HISTOGRAMS, "the kernel's histograms count all packets"),
                "another --source",
            )
        return
    if backend not in scripts:
        raise UsageError(f"--backend {backend}: expected {', '.join([BPF, *scripts])}")
    _refuse(*(request, OF_ALL, f"the scripts of {backend} time all packets"), f"--backend {BPF}")
    if request.source == HISTOGRAMS:
        raise UsageError(
            f"--source {HISTOGRAMS}: no script of {backend} reads them; use --source samples, or "
            f"--backend {BPF}"
        )
    if request.path == "send":
        raise UsageError(
            f"--path send: there is no script of {backend} for it; expected receive or forward, or "
            f"use --backend {BPF}"
        )


def _refuse(request: Request, possible: Sequence[str], why: str, instead: str) -> None:
    for one in fields(request):
        if one.name not in possible and _given(getattr(request, one.name)):
            raise UsageError(
                f"--{one.name.replace('_', '-')}: {why}; leave it out, or use {instead}"
            )
