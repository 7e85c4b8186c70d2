# SPDX-License-Identifier: GPL-2.0-or-later
"""A calibration as tables for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from skblab.calibrate.result import Calibration, Place
from skblab_analysis.formats.traces.document import Times

_US = 1000
_PERCENTILES = ("50", "99", "99.9")


def tables(found: Calibration) -> Iterator[Table | str]:
    """Yield what to print, in order."""
    yield f"{found.cpu}, {found.cpus} CPUs, Linux {found.kernel}, {found.when:%Y-%m-%d %H:%M} UTC"
    yield _times(found)
    yield "error: root mean square of how far spacing is from 1 ms"
    yield _rates(found)
    for place in found.places:
        if place.largest:
            yield _largest(place)
    yield from (f"Skipped: {what}" for what in found.skipped)


def _times(found: Calibration) -> Table:
    table = Table("times, µs", "min", "median", "99 %", "99.9 %", "max", "error", box=None)
    for woken in found.wakeup:
        table.add_row(f"late wakeup at 1 kHz, {woken.mode}", *_cells(woken.late), "")
    for place in found.places:
        rows = (
            (f"latency at {place.latency_rate} packets/s", place.latency),
            (f"jitter at {place.latency_rate} packets/s", place.jitter),
            ("round trip at 1000 packets/s", place.round_trip),
        )
        for name, times in rows:
            table.add_row(f"{place.name}: {name}", *_cells(times), "")
        for one in place.spacing:
            error = "–" if one.error_sd_ns is None else f"{one.error_sd_ns / _US:.1f}"
            name = f"{place.name}: spacing of 1 ms, {one.mode}"
            table.add_row(name, *_cells(one.inter_arrival), error)
    for column in table.columns:
        column.no_wrap = True
    return table


def _cells(times: Times | None) -> Iterator[str]:
    values = () if times is None else (times.min_ns, *map(times.percentiles_ns.get, _PERCENTILES))
    most = None if times is None else times.max_ns
    for value in (*values, most) if times else (None,) * 5:
        yield "–" if value is None else f"{value / _US:.1f}"


def _rates(found: Calibration) -> Table:
    table = Table("packets/s asked for", box=None)
    for place in found.places:
        table.add_column(f"{place.name}: reached")
        table.add_column("off")
        table.add_column("lost")
    asked = sorted({rate.asked for place in found.places for rate in place.rates})
    for rate in asked:
        row = [f"{rate}"]
        for place in found.places:
            one = next((one for one in place.rates if one.asked == rate), None)
            if one is None or one.reached is None or one.off_percent is None:
                row += ["–", "–", "–"]
            else:
                row += [f"{one.reached:.1f}", f"{one.off_percent:+.3f} %", f"{one.lost}"]
        table.add_row(*row)
    return table


def _largest(place: Place) -> str:
    assert place.largest is not None
    good, bad = place.largest.without_loss, place.largest.least_with_loss
    said = f"{place.name}: largest rate without loss: "
    said += "none was found" if good is None else f"{good:.0f} packets/s"
    said += (
        ", as fast as the sender can" if bad is None else f"; at {bad:.0f} packets/s some were lost"
    )
    return f"{said} ({place.largest.batch} packets at a time)"
