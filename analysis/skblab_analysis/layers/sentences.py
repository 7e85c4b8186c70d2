# SPDX-License-Identifier: GPL-2.0-or-later
"""What one trial of the probe found, in words made from its numbers, and what it could not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skblab_analysis.base.words import joined, quantity, share, spaced
from skblab_analysis.formats.ledger import Exchange, Ledger
from skblab_analysis.formats.pathlat import PathName
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.tables import lost_words, of_path, share_of_total
from skblab_analysis.layers.words import CONTEXTS, PATHS, about, label
from skblab_analysis.load import Run
from skblab_analysis.trials.rows import Clock

CLOCKS: tuple[Clock, ...] = ("wall", "exact")
# Above this share of late packets the traffic is not what was asked for.
LATE_SHARE = 0.01
# A layer with more than this share is also left out once, to see the others.
DOMINANT_SHARE = 0.75


def headline(run: Run) -> str | None:
    """Return where most of the time goes."""
    found = timed(run, "wall") or timed(run, "exact")
    layers = [series for series in found if series.kind == "layer"]
    longest = max(layers, key=lambda layer: share_of_total(layer, found) or 0.0, default=None)
    part = share_of_total(longest, found) if longest is not None else None
    if longest is None or part is None:
        return None
    between = f"{longest.from_point} and {longest.to_point}"
    # 99.7 % is not 100 %.
    return f"A packet spends {share(part, int(part > 0.99))} of its time between {between}"


def summary(run: Run) -> list[str]:
    """Return how long packets took, and what became of them."""
    for clock in CLOCKS:
        exchange = run.exchange(clock)
        if said := _whole(timed(run, clock))[:1]:
            return [*said, *([_exchanged(exchange)] if exchange else [])]
    return []


def sentences(run: Run) -> list[str]:
    """Return the findings, one sentence or two each."""
    # The first clock of which it is known what was sent, else the first that has any.
    for clock in sorted(CLOCKS, key=lambda clock: run.exchange(clock) is None):
        if ledgers := run.ledgers(clock):
            found = timed(run, clock)
            said = [*_whole(found), *_longest(found)]
            if exchange := run.exchange(clock):
                return [*said, *_sender(run, ledgers[-1]), _exchanged(exchange)]
            return [*said, _probed(ledgers)]
    return []


def unseen(run: Run) -> list[str]:
    """Return what the last good trials could not see."""
    said = []
    for clock in CLOCKS:
        ledgers = run.ledgers(clock)
        if exchange := run.exchange(clock):
            said += _blind_spots(run, ledgers[-1], exchange)
        if ledgers:
            said += _silent(polls(run, clock))
    return said


def main_path(run: Run, clock: Clock) -> PathName:
    """Return the path that a run is about: the received packets', or the first that has any.

    A router's own few packets are not what it is there for: of unknown ones, the most packets.
    """
    if run.exchange(clock) is not None:
        return "receive"
    counts = {path: _wholes(timed(run, clock, path)) for path in PATHS}
    return max(counts, key=lambda path: counts[path])


def _wholes(found: Sequence[Series]) -> int:
    return sum(series.histogram.count for series in found if series.kind == "path")


def timed(run: Run, clock: Clock, path: PathName | None = None) -> list[Series]:
    """Return layers and whole path of the clock's last good trial, those with a value.

    `path` is the one that the run is about if none is given.
    """
    path = main_path(run, clock) if path is None else path
    trial = run.trial(clock, path)
    if trial is None:
        return []
    return of_path(path, [series for series in run.of_trial(trial) if _filled(series)])


def polls(run: Run, clock: Clock) -> list[Series]:
    """Return the NAPI figures of a clock's trials, those with a value."""
    return [
        series
        for ledger in run.ledgers(clock)
        for series in run.of_trial(ledger.trial)
        if series.kind == "napi" and _filled(series)
    ]


def dominant(found: Sequence[Series]) -> Series | None:
    """Return the layer that takes so much of the path that the others cannot be told apart."""
    for series in found:
        if series.kind == "layer" and (share_of_total(series, found) or 0.0) > DOMINANT_SHARE:
            return series
    return None


def _whole(found: Sequence[Series]) -> list[str]:
    said = []
    for series in found:
        if series.kind == "layer":
            continue
        histogram, unit = series.histogram, series.unit
        parts = []
        p50, p99 = histogram.quantile(0.5), histogram.quantile(0.99)
        if p50 is not None:
            parts.append(f"half took {quantity(p50, unit)} or less")
        if p99 is not None:
            parts.append(f"one in a hundred took {quantity(p99, unit)} or more")
        most = "at most " if histogram.bounded else ""
        parts.append(f"the slowest took {most}{quantity(histogram.maximum, unit)}")
        packets = spaced(histogram.count)
        where = f"From {series.from_point} to {series.to_point}, of {packets} packets"
        if series.kind == "since_entry":
            where = "With what was before, since they first entered the stack"
        said.append(f"{where}, {joined(parts)}.")
    return said


def _longest(found: Sequence[Series]) -> list[str]:
    layers = [series for series in found if series.kind == "layer"]
    at_median = _largest(layers, lambda layer: layer.histogram.quantile(0.5))
    in_tail = _largest(layers, lambda layer: layer.histogram.quantile(0.99))
    said = []
    if at_median is not None:
        middle = quantity(at_median.histogram.quantile(0.5), at_median.unit)
        what = about(at_median)
        said.append(
            f"At the median the longest layer is {label(at_median)}, {middle}"
            + (f" ({what})." if what else ".")
        )
    if in_tail is not None:
        tail = quantity(in_tail.histogram.quantile(0.99), in_tail.unit)
        which = "the same layer" if in_tail is at_median else f"another one, {label(in_tail)}"
        said.append(
            f"In the tail it is {which}: one packet in a hundred spends {tail} or more there."
        )
    hides = dominant(found)
    others = _largest(
        [layer for layer in layers if layer is not hides],
        lambda layer: layer.histogram.quantile(0.5),
    )
    if hides is not None and others is not None:
        middle = quantity(others.histogram.quantile(0.5), others.unit)
        what = about(others)
        said.append(
            f"Of the other layers the longest is {label(others)}, {middle} at the median"
            + (f" ({what})." if what else ".")
        )
    return [" ".join(said)] if said else []


def _sender(run: Run, ledger: Ledger) -> list[str]:
    found = [
        series for series in run.of_trial(ledger.trial) if series.path == "send" and _filled(series)
    ]
    top = _largest(
        [series for series in found if series.kind == "layer"], lambda layer: layer.histogram.mean
    )
    part = share_of_total(top, found) if top is not None else None
    if top is None or part is None:
        return []
    what = about(top)
    return [
        f"The sender’s own path takes {quantity(_mean_of_whole(found), top.unit)} on average, "
        f"{share(part, 0)} of it in {label(top)}" + (f" ({what})." if what else ".")
    ]


def _mean_of_whole(found: Sequence[Series]) -> float | None:
    return next((series.histogram.mean for series in found if series.kind == "path"), None)


def _largest(layers: Sequence[Series], figure: Callable[[Series], float | None]) -> Series | None:
    known = [(value, series) for series in layers if (value := figure(series)) is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _probed(ledgers: Sequence[Ledger]) -> str:
    """Say what a probe that knows nothing of the sender could not account for."""
    ended = sum(ledger.ended for ledger in ledgers)
    missing = sum(ledger.missing for ledger in ledgers)
    if not missing:
        return f"All {spaced(ended)} packets’ paths that the probe saw end are accounted for."
    return (
        f"The probe saw {spaced(ended)} packets’ paths end; {spaced(missing)} more are "
        "unaccounted for."
    )


def _exchanged(exchange: Exchange) -> str:
    lost = f"{spaced(exchange.lost)} were lost"
    if exchange.lost and lost_words(exchange):
        lost += f" ({lost_words(exchange)})"
    if not exchange.lost:
        lost = "none was lost"
    missed = [count for count in exchange.points if count.not_seen]
    seen = "every point of the path saw every one of them"
    if missed:
        seen = joined([f"{count.point} missed {spaced(count.not_seen)}" for count in missed])
    sent, received = spaced(exchange.sent), spaced(exchange.received)
    return f"Of {sent} packets sent {received} arrived and {lost}; {seen}."


def _blind_spots(run: Run, ledger: Ledger, exchange: Exchange) -> list[str]:
    said = []
    trial = run.trials[ledger.trial]
    if trial.late and trial.late > LATE_SHARE * exchange.sent:
        said.append(
            f"The sender could not keep its rate: {spaced(trial.late)} packets left more than "
            f"{quantity(trial.late_threshold, 'ns')} late (mean "
            f"{quantity(trial.late_mean, 'ns')}, worst {quantity(trial.late_max, 'ns')}). "
            "They came in bursts, so part of the time in a queue is waiting for each other."
        )
    if exchange.unsampled:
        said.append(
            f"{spaced(exchange.unsampled)} packets were read, and the probe did not see their end."
        )
    if exchange.lost_elsewhere:
        said.append(
            f"{spaced(exchange.lost_elsewhere)} packets were lost where no point sees them."
        )
    absent = [count.point for count in exchange.points if not count.seen]
    if absent:
        said.append(
            f"No packet was stamped at {joined(absent)}: absent in this kernel, or not on the path."
        )
    skipped = [count.point for count in exchange.sent_points if not count.seen]
    if skipped:
        said.append(f"No packet was stamped at {joined(skipped)} on the sender’s path.")
    if ledger.merged:
        said.append(f"{spaced(ledger.merged)} packets were merged into others and timed as these.")
    for cause, count in ledger.unaccounted.items():
        if count and cause != "unsampled":
            said.append(f"{spaced(count)} packets could not be placed: {cause}.")
    return said


def _silent(found: Sequence[Series]) -> list[str]:
    """Say of which polls nothing is known."""
    said = []
    contexts = {series.context for series in found if _filled(series)}
    if "all" in contexts:
        return ["The kernel's own histograms do not tell in which context a poll ran."]
    silent = [name for context, name in CONTEXTS.items() if context not in contexts]
    if contexts and silent:
        said.append(f"No NAPI poll ran in {joined(silent)}: nothing is said about polls there.")
    if not contexts:
        said.append("No NAPI poll was seen: the delay from schedule to poll is not known.")
    return said


def _filled(series: Series) -> bool:
    return bool(series.histogram.buckets)
