# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency statistics of TRex (stateless), as its Python client gives them, stored as JSON.

`get_stats()` has under `latency` for each `pg_id` an object with `latency` (in µs `average`,
`total_min`, `total_max`, `last_max`, `jitter`, and `histogram` by the lower end of each range) and
`err_cntrs` (`dropped`, `dup`, `out_of_order`, `seq_too_high`, `seq_too_low`). There are no packets
in it, so it becomes figures alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.traces.document import StampsSaid, Stream, Times, TrexSaid

_US = 1000
_Count = Annotated[int, Field(ge=0, le=2**63, strict=True)]
_Micros = Annotated[float, Field(ge=0, le=1e12)]
UNKNOWN = {
    "sequence": "TRex gives statistics and no packets: no file of records can be made of them",
    "inter_arrival": "TRex does not count it",
    "jitter": "TRex smooths it, under trex.jitter_us; that of RFC 4689 is not known",
    "delay.sd_ns": "TRex does not count it",
    "delay.percentiles_ns": "TRex's histogram is too coarse for them: trex.histogram_us",
    "lost": "an estimate of TRex (dropped), by numbers",
    "reordered": "TRex's out_of_order: the number was too low",
    "stamps.clock": "a clock of the generator",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Latency(_Part):
    average: _Micros | None = None
    total_min: _Micros | None = None
    total_max: _Micros | None = None
    last_max: _Micros | None = None
    jitter: _Micros | None = None
    histogram: Mapping[str, _Count] = {}


class _Errors(_Part):
    dropped: _Count | None = None
    dup: _Count | None = None
    out_of_order: _Count | None = None
    seq_too_high: _Count | None = None
    seq_too_low: _Count | None = None


class _Group(_Part):
    latency: _Latency
    err_cntrs: _Errors = _Errors()


class TrexStatistics:
    """Such a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        groups = _groups(path)
        self._groups: dict[str, _Group] = {}
        for name, value in groups.items():
            # Beside the numbers of groups there are counters of all, under "global" or "g".
            if not (name.isascii() and name.isdigit()):
                continue
            try:
                self._groups[name] = _Group.model_validate(value)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, ("latency", name, *first["loc"])))
                raise UsageError(f"{path}: {where}: {first['msg']}") from None
        if not self._groups:
            raise UsageError(
                f"{path}: no statistics of TRex: expected under `latency` an object for each pg_id"
            )

    def unknown(self) -> Mapping[str, str]:
        """Return what TRex does not tell, or has otherwise."""
        return UNKNOWN

    def streams(self) -> tuple[Stream, ...]:
        """Return the figures of each group."""
        return tuple(_stream(name, group) for name, group in self._groups.items())


def _groups(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no whole JSON: {error}") from None
    found = document.get("latency") if isinstance(document, dict) else None
    if not isinstance(found, dict):
        raise UsageError(
            f"{path}: no statistics of TRex: expected an object with `latency`, as get_stats() of "
            "its Python client gives it"
        )
    return found


def _stream(name: str, group: _Group) -> Stream:
    latency, errors = group.latency, group.err_cntrs
    # TRex gives zeros of a group that had no packets.
    count = sum(latency.histogram.values())
    some = count > 0 or bool(latency.total_max)
    delay = Times(
        count=count,
        negative=0,
        min_ns=_ns(latency.total_min) if some else None,
        mean_ns=None if latency.average is None or not some else latency.average * _US,
        sd_ns=None,
        max_ns=_ns(latency.total_max) if some else None,
        percentiles_ns={},
    )
    nothing = dict.fromkeys(set(Stream.model_fields) - {"stamps", "delay", "name", "trex"})
    return Stream(
        **{
            **nothing,
            "name": f"pg_id {name}",
            "received": count if latency.histogram else None,
            "duplicates": errors.dup,
            "reordered": errors.out_of_order,
            "lost": errors.dropped,
            "stamps": StampsSaid(clock=None, kind="tester", not_by_kernel=None),
            "delay": delay,
            "delay_of": "one way",
            "trex": TrexSaid(
                jitter_us=latency.jitter,
                last_max_us=latency.last_max,
                histogram_us=latency.histogram,
                seq_too_high=errors.seq_too_high,
                seq_too_low=errors.seq_too_low,
            ),
        }
    )


def _ns(micros: float | None) -> int | None:
    return None if micros is None else round(micros * _US)
