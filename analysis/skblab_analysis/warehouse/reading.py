# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of one run as rows of the store's tables.

Settings have the figures that `--json` prints, and block by block those that settings are told by.
Sides of a comparison, commits of a search and rows of a profile have theirs from its documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis import tables
from skblab_analysis.base.certainty import interval
from skblab_analysis.base.checked import measured_well, read
from skblab_analysis.base.sampled import COUNTED, Sampled
from skblab_analysis.formats import bisect, compare, functimes, functions
from skblab_analysis.formats.bench import Row
from skblab_analysis.formats.bisect import BisectDocument
from skblab_analysis.formats.compare import CompareDocument, Workload
from skblab_analysis.formats.functimes import FunctimesDocument
from skblab_analysis.formats.functions import FunctionsDocument
from skblab_analysis.formats.run import DOCUMENT
from skblab_analysis.formats.summary import Figure
from skblab_analysis.functions import view as profiles
from skblab_analysis.load import Run, load
from skblab_analysis.measures import VIEWS
from skblab_analysis.report import places, states
from skblab_analysis.trials.rows import Clock
from skblab_analysis.warehouse import listing
from skblab_analysis.warehouse.listing import Looked
from skblab_analysis.warehouse.rows import BlockRow, FigureRow, FunctionRow, OfRun, RunRow

# Digests of what was read by rules of another version are others: it is read again.
_RULES = "1"
_DIGITS = 32
# Among the knobs of a boot: another kernel than the run's.
_OTHER_KERNEL = "kernel="
# Of compare, bisect and profiles.
INSTRUCTIONS = "instructions"
WORKLOAD = "workload"
ALL_FUNCTIONS = "all functions"


@dataclass(frozen=True)
class Gathered:
    """A run's rows of all tables of a store."""

    run: RunRow
    figures: tuple[FigureRow, ...]
    blocks: tuple[BlockRow, ...]
    functions: tuple[FunctionRow, ...]


def content(folder: Path) -> str:
    """Return a digest of the files that a run's figures are from."""
    state = hashlib.sha256(_RULES.encode())
    names = [DOCUMENT, "experiment.toml", *(f"{one.file}.parquet" for one in tables.TABLES)]
    names += [compare.FILE, bisect.FILE, functimes.FILE, "packets.json", "bench.json"]
    files = [folder / name for name in names]
    files += sorted(folder.glob(functions.FILES)) + sorted((folder / tables.PARTS).glob("*.json"))
    for file in files:
        if file.is_file():
            data = file.read_bytes()
            state.update(f"{file.name}\0{len(data)}\0".encode())
            state.update(data)
    return state.hexdigest()[:_DIGITS]


def gather(looked: Looked, digest: str = "") -> Gathered:
    """Return a run's rows; SkblabError if it is broken. `digest` is kept with the run."""
    run = load(looked.folder)
    made = _Made(run, looked)
    with measured_well(f"what {looked.folder} has"):
        made.add_all()
    return Gathered(
        looked.row.model_copy(update={"content": digest}),
        tuple(made.figures),
        tuple(made.blocks),
        tuple(made.functions),
    )


def clock_of(unit: str) -> Clock:
    """Return the clock of a figure by its unit, as `Sampled.exact` does."""
    return "exact" if unit in COUNTED else "wall"


class _Made:
    """Rows of one run as they are made."""

    def __init__(self, run: Run, looked: Looked) -> None:
        self._run = run
        row = looked.row
        self._of_run = {name: getattr(row, name) for name in OfRun.model_fields}
        known = run.document.environment
        self._release = "" if known is None else known.kernel.release
        self._booted = {trial.setting: trial.boot_knobs for trial in run.trials if trial.boot_knobs}
        self.figures: list[FigureRow] = []
        self.blocks: list[BlockRow] = []
        self.functions: list[FunctionRow] = []

    def add_all(self) -> None:
        """Add the figures of all that the run has."""
        folder = self._run.folder
        compared = listing.comparison(folder)
        if compared is not None:
            self._add_comparison(compared)
        path = folder / bisect.FILE
        if path.exists():
            self._add_search(read(BisectDocument, path, "the document of a search"))
        self._add_profiles()
        self._add_calls()
        self._add_settings()

    def _add_settings(self) -> None:
        """Add the figures of all measures."""
        samples = {
            (*sample.of, sample.setting): sample
            for view in VIEWS
            for sample in view.samples(self._run)
        }
        for view in VIEWS:
            for figure in view.figures(self._run):
                self._add_setting(figure, samples)

    def _add_setting(self, figure: Figure, samples: Mapping[tuple[object, ...], Sampled]) -> None:
        of = (figure.measure, figure.figure, figure.part, figure.unit, figure.traffic, figure.rate)
        sample = samples.get((*of, figure.setting))
        # What it was measured by is the same for all figures of its measure.
        shown = sample or Sampled(
            figure.measure, figure.figure, figure.unit, figure.setting, {}, figure.part
        )
        clock = clock_of(figure.unit)
        low = high = None
        if sample is not None:
            low, high = sample.interval.low, sample.interval.high
        elif figure.value is not None and figure.half is not None:
            low, high = figure.value - figure.half, figure.value + figure.half
        self._add(
            {
                "clock": clock,
                "kernel": self._kernel(figure.setting),
                "workload": "",
                "setting": figure.setting,
                "measure": figure.measure,
                "figure": figure.figure,
                "part": figure.part,
                "unit": figure.unit,
                "traffic": figure.traffic,
                "rate": figure.rate,
            },
            {
                "value": figure.value,
                "low": low,
                "high": high,
                "count": len(sample.blocks) if sample else figure.blocks,
                "resolution": sample.resolution if sample else 0.0,
                "relative": sample.relative if sample else False,
                "partial": sample.partial if sample else False,
                "place": _json(places.place(self._run.document, clock)),
                "how": _json(places.measured(self._run, shown)),
                "sets": _json(states.of(self._run).get(figure.setting, {})),
            },
            dict(sample.blocks) if sample else {},
        )

    def _kernel(self, setting: str) -> str:
        words = self._booted.get(setting, "").split()
        other = [word.removeprefix(_OTHER_KERNEL) for word in words if _OTHER_KERNEL in word]
        return other[0] if other else self._release

    def _add_comparison(self, document: CompareDocument) -> None:
        """Add what workloads cost on each side, and by function in each boot."""
        names = _distinct([side.name for side in document.sides])
        how = {"packets": str(document.packets)}
        for workload in document.workloads:
            for number, side in enumerate(document.sides):
                boots = {
                    one.boot: one.figure
                    for one in document.measured
                    if (one.workload, one.side) == (workload.name, number) and one.figure
                }
                # Of a kernel's own words: it is said by `kernel`.
                sets = side.settings | (
                    {} if side.flavour == "stock" else {"flavour": side.flavour}
                )
                self._add_boots(
                    self._of_side(names[number], side.kernel.release, workload),
                    boots,
                    {
                        "place": _json({"testbed": "none", **document.instrument}),
                        "how": _json(how | {"workload": workload.sha256}),
                        "sets": _json(sets),
                    },
                )

    def _add_search(self, document: BisectDocument) -> None:
        """Add what the workload took with each commit that was measured."""
        for step in document.steps:
            known = document.environments.get(step.commit)
            release = "" if known is None else known.kernel.release
            self._add_boots(
                self._of_side(step.commit, release, document.workload),
                dict(enumerate(step.figures)),
                {
                    "place": _json({"testbed": "none", **document.instrument}),
                    "how": _json(
                        {"packets": str(document.packets), "workload": document.workload.sha256}
                    ),
                    "sets": _json(document.settings),
                },
            )

    def _of_side(self, setting: str, release: str, workload: Workload) -> dict[str, object]:
        return {
            "clock": "exact",
            "kernel": release,
            "workload": workload.name,
            "setting": setting,
            "measure": INSTRUCTIONS,
            "figure": WORKLOAD,
            "part": "",
            "unit": f"instructions/{workload.unit}",
            "traffic": "",
            "rate": None,
        }

    def _add_boots(
        self,
        of: Mapping[str, object],
        boots: Mapping[int, compare.Figure],
        known: Mapping[str, object],
    ) -> None:
        """Add a figure of several boots, whose resolution is what two boots may differ by."""
        if not boots:
            return
        values = {boot: one.instructions for boot, one in boots.items()}
        mean = sum(values.values()) / len(values)
        resolution, _ = compare.threshold(mean)
        found = interval([*values.values()], resolution)
        self._add(
            of,
            {
                "value": found.mean,
                "low": found.low,
                "high": found.high,
                "count": len(values),
                "resolution": resolution,
                "relative": False,
                "partial": False,
                **known,
            },
            values,
        )
        for boot, one in boots.items():
            for name, value in one.functions.items():
                self._add_function(of, boot, name, value)

    def _add_profiles(self) -> None:
        """Add what each function takes in each row of a profile, and all of them together."""
        sides: list[tuple[FunctionsDocument, functions.Side, Row]] = []
        for document in profiles.load(self._run):
            # What several are compared with is there once.
            if document.a is not None and not sides:
                sides.append((document, "a", document.a))
            sides.append((document, "b", document.b))
        names = _distinct([row.title for _, _, row in sides])
        for (document, side, row), name in zip(sides, names, strict=True):
            of = {
                "clock": "exact",
                "kernel": row.kernel,
                "workload": f"{document.case}, IPv{document.family}",
                "setting": name,
                "measure": INSTRUCTIONS,
                "figure": ALL_FUNCTIONS,
                "part": "",
                "unit": "instructions/packet",
                "traffic": "",
                "rate": None,
            }
            taken = {one.name: one.of(side) for one in document.functions}
            self._add(
                of,
                {
                    "value": sum(one.own for one in taken.values()),
                    "low": None,
                    "high": None,
                    "count": 1,
                    "resolution": 0.0,
                    "relative": False,
                    "partial": False,
                    "place": _json(places.place(self._run.document, "exact")),
                    "how": _json({"destinations": document.destinations}),
                    "sets": _json(document.settings.get(side, {})),
                },
                {},
            )
            for function, one in taken.items():
                if any(one):
                    self._add_function(of, 0, function, one.own, one.again, one.inclusive)

    def _add_calls(self) -> None:
        """Add what calls of functions took on average."""
        path = self._run.folder / functimes.FILE
        if not path.exists():
            return
        document = read(FunctimesDocument, path, "the document of calls")
        of = {
            "clock": "exact" if document.unit == "instructions" else "wall",
            "kernel": document.kernel,
            "workload": "",
            "setting": "default",
            "unit": f"{document.unit}/call",
        }
        for one in document.functions:
            if one.self_.count and one.inclusive.count:
                own = one.self_.sum / one.self_.count
                whole = one.inclusive.sum / one.inclusive.count
                self._add_function(of, 0, one.name, own, None, whole, one.self_.count)

    def _add(
        self,
        of: Mapping[str, object],
        known: Mapping[str, object],
        blocks: Mapping[int, float],
    ) -> None:
        head = {**self._of_run, **of}
        self.figures.append(FigureRow.model_validate({**head, **known}))
        self.blocks += [
            BlockRow.model_validate({**head, "block": block, "value": value})
            for block, value in sorted(blocks.items())
        ]

    def _add_function(
        self,
        of: Mapping[str, object],
        block: int,
        name: str,
        value: float,
        again: float | None = None,
        inclusive: float | None = None,
        calls: int | None = None,
    ) -> None:
        kept = ("clock", "kernel", "workload", "setting", "unit")
        self.functions.append(
            FunctionRow.model_validate(
                {
                    **self._of_run,
                    **{key: of[key] for key in kept},
                    "block": block,
                    "function": name,
                    "value": value,
                    "again": again,
                    "inclusive": inclusive,
                    "calls": calls,
                }
            )
        )


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names of sides, of which several may be one kernel; these are numbered."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def _json(facts: Mapping[str, str]) -> str:
    """Return facts as a text that is the same for the same facts."""
    return json.dumps(dict(facts), sort_keys=True, ensure_ascii=False)
