# SPDX-License-Identifier: GPL-2.0-or-later
"""What a tune writes down: its page, the script, and the files for sysctl.d and TuneD."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from skblab.knobs.values import text
from skblab.sweep.experiment import Experiment, differing
from skblab.tune import page, script
from skblab.tune.adding import Added
from skblab.tune.asked import Asked
from skblab.tune.choosing import Chosen
from skblab.tune.judging import NOTHING, good
from skblab_analysis.base import disk
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.load import Run
from skblab_analysis.report import advice
from skblab_analysis.report.advice import Setting


def to_tell(
    asked: Asked,
    found: Experiment,
    runs: Sequence[Run | None],
    advised: advice.Advice,
    better: Sequence[Setting],
    chosen: Chosen = NOTHING,
    kept: Chosen = NOTHING,
    added: Added | None = None,
    *,
    confirmed: str = "",
    why_none: str = "",
    not_tried: str = "",
) -> page.Told:
    """Return what the page says of a tune's sweeps, those that were not made as None."""
    first = runs[0]
    assert first is not None
    environment = first.document.environment
    plan = first.document.plan
    there = {row.setting for row in first.trials if good(row)}
    not_tested = {
        row.setting: row.reason for row in first.trials if row.setting not in there and row.reason
    }
    elsewhere = [one for one in advised.ranked if one not in better]
    known = {
        one.name for one in (*advised.ranked, *advised.mixed, *advised.only_here, *advised.worse)
    }
    known |= set(kept.settings)
    return page.Told(
        question=plan.question,
        goal=asked.goal,
        where=asked.request.kind.where,
        kernel=environment.kernel.release if environment else "unknown",
        traffic=plan.traffic,
        together=kept.settings,
        ranked=[(one.name, one.gains) for one in better],
        elsewhere=[(one.name, one.gains) for one in elsewhere],
        mixed=[(one.name, f"{one.gains}; but {one.losses}") for one in advised.mixed],
        only_here=[(one.name, f"{one.gains}. Why: {one.only_here}.") for one in advised.only_here],
        worse=[(one.name, one.losses) for one in advised.worse],
        guest=asked.request.kind.boots,
        baseline=", ".join(f"{name}={text(value)}" for name, value in found.baseline.items())
        or "the machine as it comes",
        added=list(added.lines()) if added else [],
        not_tried=not_tried,
        left=[*chosen.left, *_dropped(found, chosen, kept, better, added)],
        not_tested=list(not_tested.items()),
        no_gain=[
            name
            for name in plan.settings
            if name not in known | not_tested.keys() | {plan.baseline, AGAIN}
        ],
        confirmed=confirmed,
        caution=advised.caution,
        why_none=why_none,
        reports=[str(run.folder / "report" / "index.html") for run in runs if run is not None],
        knobs=kept.knobs,
        catalogue=found.catalogue,
    )


def _dropped(
    found: Experiment,
    chosen: Chosen,
    kept: Chosen,
    better: Sequence[Setting],
    added: Added | None,
) -> Iterator[tuple[str, str]]:
    """Yield what was good and is not set, with the reason; contradictions are told already."""
    if not kept.settings:
        return
    harmful = {name for name, _ in added.harmful} if added else set()
    told = {*kept.settings, *(name for name, _ in chosen.left)}
    own = {setting.name: differing(found, setting) for setting in found.settings()}
    for name in dict.fromkeys((*chosen.settings, *(one.name for one in better))):
        if name in told:
            continue
        if own[name].items() <= kept.knobs.items():
            yield name, "what is set has all of it"
        elif name in harmful:
            yield name, "with all the others it is better without it"
        elif name in chosen.settings:
            yield name, f"with it nothing was clearly better than {kept.settings[0]} alone"
        else:
            yield name, "with all the others it adds nothing that was seen"


def write(folder: Path, told: page.Told, asked: Asked) -> None:
    """Write the page, and the files that set what is advised."""
    disk.write(folder / page.PAGE, "\n".join(page.page(told)) + "\n")
    if of_script := script.settable(told.knobs):
        about = [f"For {asked.goal}, by skblab tune {asked.file}: {told.confirmed}"]
        disk.write(folder / page.SCRIPT, script.script(page.SCRIPT, about, of_script))
    for name, made in (
        (page.SYSCTL, page.sysctl_conf(told.knobs)),
        (page.TUNED, page.tuned_conf(told.knobs)),
    ):
        if made:
            disk.write(folder / name, made)
