# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of a run folder's tables, made of trials, and trials made of rows again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skblab_analysis import columns
from skblab_analysis.base.checked import parse
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.formats.pktsink import ArrivalsDocument, Gap, LatePackets
from skblab_analysis.formats.run import Clock
from skblab_analysis.layers.series import Row
from skblab_analysis.rfc2544.rows import OfTrial
from skblab_analysis.throughput.rows import Result


def exact_trials(rows: Sequence[Row]) -> list[ExactTrial]:
    """Return the good trials that count instructions."""
    return [
        parse(
            ExactTrial,
            {name: row[name] for name in ("setting", "part", "boot", "repeat", "packets")}
            | {"delivered": row["received"], "instructions": row["instructions"]}
            | {"traffic": row["traffic"] or "", "boot_knobs": row["boot_knobs"] or ""},
            f"trial {row['trial']}",
        )
        for row in rows
        if row["state"] == "good" and row["instructions"] is not None
    ]


def results(rows: Sequence[Row]) -> list[Result]:
    """Return what searches found, of rows of `throughput`."""
    return [
        parse(
            Result,
            {name: row[name] for name in Result.model_fields}
            | {"boot_knobs": row["boot_knobs"] or ""},
            "a row of throughput",
        )
        for row in rows
    ]


def tested(rows: Sequence[Row]) -> list[OfTrial]:
    """Return what RFC 2544's other tests found, of rows of `rfc2544`."""
    return [
        parse(OfTrial, {name: row[name] for name in OfTrial.model_fields}, "a row of rfc2544")
        for row in rows
    ]


def of_late(one: LatePackets, packets: int) -> Row:
    """Return what a row of `late` has beside its trial; `packets` have a known latency."""
    return {
        "threshold": one.threshold_ns,
        "in_a_row": one.in_a_row,
        "packets": packets,
        "late": one.packets_late,
        "anomalies": one.runs.count,
        "in_anomalies": one.runs.packets,
        "longest": one.runs.longest,
        "not_recorded": one.runs.not_recorded,
    }


def of_anomalies(trial: int, document: ArrivalsDocument) -> Iterator[Row]:
    """Yield the rows of `anomalies` of a trial: late runs, then gaps."""
    empty: Row = dict.fromkeys(column.name for column in columns.ANOMALIES.columns)
    for late in document.late:
        for run in late.runs.recorded:
            yield _anomaly(trial, "late", run) | {
                "threshold": late.threshold_ns,
                "sent_span": run.sent_ns,
                "latency_min": run.min_ns,
                "latency_mean": run.mean_ns,
                "latency_max": run.max_ns,
                "open_begin": run.open_begin,
                "open_end": run.open_end,
            }
    for gap in document.gaps.recorded:
        yield empty | _anomaly(trial, "gap", gap)


def _anomaly(trial: int, kind: str, one: Gap) -> Row:
    return {
        "trial": trial,
        "kind": kind,
        "sequence": one.sequence,
        "packets": one.packets,
        "begin": one.begin_ns,
        "end": one.end_ns,
    }


def of_trial(trial: int, clock: Clock, setting: str, boot: int, repeat: int) -> Row:
    """Return the row of a good trial of whatever kind, with nothing in it yet."""
    row: Row = dict.fromkeys(column.name for column in columns.TRIALS.columns)
    return row | {
        "trial": trial,
        "clock": clock,
        "setting": setting,
        "part": "whole",
        "boot": boot,
        "repeat": repeat,
        "state": "good",
        "packets": 0,
    }


def of_exact(number: int, trial: ExactTrial) -> Row:
    """Return the row of a trial that counts instructions."""
    return of_trial(number, "exact", trial.setting, trial.boot, trial.repeat) | {
        "part": trial.part,
        "boot_knobs": trial.boot_knobs or None,
        "traffic": trial.traffic or None,
        "measure": "tester" if trial.part == "tester" else "instructions",
        "sent": trial.packets,
        "received": trial.delivered,
        "lost": trial.packets - trial.delivered,
        "packets": trial.packets,
        "instructions": trial.instructions,
        "instructions_per_packet": trial.per_packet,
    }
