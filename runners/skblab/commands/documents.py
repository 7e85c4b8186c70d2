# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands print by `--json`: one document each, whose schema is in results-schema/.

Documents that are stored as well are in `skblab_analysis.formats`, and those of other rooms are
theirs; here are those that are printed only. `PRINTED` lists all by command, and `WITHOUT` says why
the other commands have none.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, RootModel

from skblab.calibrate.result import Calibration
from skblab.doctor.checks import Check
from skblab.lab.kernel import debian, model, package, patchcheck
from skblab.soak.verdict import SoakResult
from skblab.tune.ahead import TunePlan
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.whole import Positive
from skblab_analysis.formats.analyze import AnalyzeDocument
from skblab_analysis.formats.bench import BenchDocument
from skblab_analysis.formats.bisect import BisectDocument
from skblab_analysis.formats.compare import CompareDocument
from skblab_analysis.formats.functimes import FunctimesDocument
from skblab_analysis.formats.functions import FunctionsDocument
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.formats.scripts import ScriptsDocument
from skblab_analysis.formats.study import Figures
from skblab_analysis.formats.summary import SummaryDocument
from skblab_analysis.warehouse.printed import (
    FiguresOverTime,
    PackedRuns,
    QueryAnswer,
    RunsListing,
)


class Doctor(Closed):
    """What this machine can do; `ready` if nothing is missing."""

    schema_name: Literal["skblab.doctor/1"] = "skblab.doctor/1"
    ready: bool
    checks: tuple[Check, ...]


class FunctionsOfSettings(Closed):
    """What each setting of an experiment costs by function: with `--experiment`."""

    schema_name: Literal["skblab.functions-of-settings/1"] = "skblab.functions-of-settings/1"
    settings: tuple[FunctionsDocument, ...]


class Tuned(Closed):
    """What to set, tried together in fresh boots."""

    schema_name: Literal["skblab.tune/1"] = "skblab.tune/1"
    folder: str = Field(description="has advice.md and, if something is advised, advice.sh")
    goal: str
    experiment: str
    settings: tuple[str, ...] = Field(description="what to set together, the best first")
    confirmed: str = Field(
        description="what was found when it was measured again, in words; empty: it was not"
    )
    why_none: str = Field(description="why nothing is to be set; empty if something is")
    reports: tuple[str, ...] = Field(description="the pages of the sweeps")


class BuiltKernel(model.Record):
    """A kernel in the cache: where its parts are, and its record.

    One that was packaged has no vmlinux and no folder to compile modules against.
    """

    path: str
    image: str
    vmlinux: str | None
    build_dir: str | None

    @classmethod
    def of(cls, built: model.Kernel) -> BuiltKernel:
        """Return what is printed of a kernel."""
        return cls(
            path=str(built.path),
            image=str(built.image),
            vmlinux=None if built.record.packages else str(built.vmlinux),
            build_dir=None if built.record.packages else str(built.build_dir),
            **built.record.model_dump(),
        )


class BuiltKernels(RootModel[tuple[BuiltKernel, ...]]):
    """All kernels in the cache, the newest first."""


class MadePackages(package.Record):
    """Packages of a kernel: the folder that they were put in, and their record."""

    output: str


class ConfigDifferences(debian.Comparison):
    """Our configuration beside Debian's."""

    schema_name: Literal["skblab.config-diff/1"] = "skblab.config-diff/1"


class CheckedPatch(patchcheck.PatchResult):
    """All checks of one patch."""

    schema_name: Literal["skblab.checked-patch/1"] = "skblab.checked-patch/1"


class CheckedPatches(RootModel[tuple[CheckedPatch, ...]]):
    """All checks of all patches, in the order of the series."""


class Case(Closed):
    """A case of a selftest."""

    name: str
    result: str
    comment: str


class Selftest(Closed):
    """A selftest: its verdict and why, wall time in seconds, the file of all it printed."""

    test: str
    verdict: Literal["pass", "fail", "skip"]
    why: str
    seconds: float
    log: str
    cases: tuple[Case, ...]


class Selftests(Closed):
    """The series' selftests on one kernel; `passed` if none failed."""

    schema_name: Literal["skblab.kselftest/1"] = "skblab.kselftest/1"
    kernel: str
    flavour: model.Flavour
    passed: bool
    tests: tuple[Selftest, ...]


class Differing(Closed):
    """A result of a selftest that the patches change; an empty name is the test as a whole."""

    test: str
    name: str
    unpatched: str
    patched: str


class BothSides(Closed):
    """What a selftest said on either kernel: results by the name of each sub-test."""

    unpatched: dict[str, str]
    patched: dict[str, str]


class ComparedSelftests(Closed):
    """The kernel's own selftests, unpatched and patched; `unsteady` ones differ by themselves."""

    schema_name: Literal["skblab.kselftest-compare/1"] = "skblab.kselftest-compare/1"
    same: bool
    differences: tuple[Differing, ...]
    unsteady: tuple[str, ...]
    tests: dict[str, BothSides]


class Soak(Closed):
    """A soak: `good` without complaints; `console` is the file of the guest's console.

    `reports` are those of KCSAN and KMSAN in no line of the series.
    """

    schema_name: Literal["skblab.soak/4"] = "skblab.soak/4"
    kernel: str
    seed: int
    seconds: int
    good: bool
    complaints: tuple[str, ...]
    reports: tuple[str, ...] = ()
    console: str
    result: SoakResult


class CountedCase(Closed):
    """Known packets counted by one back end; without complaints all were counted.

    `missed` events are those that the back end itself says it missed, `missed_before` those of
    earlier tries.
    """

    patched: bool
    backend: str
    case: str
    packets: int
    complaints: tuple[str, ...]
    missed: int
    missed_before: tuple[int, ...]


class LayerMedian(Closed):
    """The median of a layer by back end, in instructions: the bucket it is in, low and high.

    `low` and `high` are what remains as true of it; low > high: they contradict each other.
    """

    layer: str
    backends: dict[str, tuple[int, int]]
    low: float
    high: int


class KernelMedians(Closed):
    """Medians on one kernel, and what each back end adds to a packet by path, in instructions."""

    kernel: str
    layers: tuple[LayerMedian, ...]
    own_work: dict[str, dict[str, float]]


class Verified(Closed):
    """Whether the probes are right; `wrong` names each count and median that does not agree."""

    schema_name: Literal["skblab.verify/1"] = "skblab.verify/1"
    good: bool
    counts: tuple[CountedCase, ...]
    medians: tuple[KernelMedians, ...]
    wrong: tuple[str, ...]


class Study(Closed):
    """A published study beside our own run of it, times in µs; `published` is by experiment."""

    schema_name: Literal["skblab.study/1"] = "skblab.study/1"
    name: str
    where: str
    folder: str
    differs: str
    ours: tuple[Figures, ...]
    published: dict[str, Figures]


class SenderRate(Closed):
    """What a sender reached: `rates` by round, packets a second, and the medians of ratios."""

    sender: str
    rates: tuple[float, ...]
    rate: float
    of_pktgen: float
    of_luna: float


class Senders(Closed):
    """Senders in a guest, beside pktgen there, and beside LUNA's published rate."""

    schema_name: Literal["skblab.senders/1"] = "skblab.senders/1"
    kernel: str
    packets: Positive
    luna: Positive
    senders: tuple[SenderRate, ...]


class Summaries(RootModel[tuple[SummaryDocument, ...]]):
    """The figures of several runs, in the order given."""


class CacheEntry(Closed):
    """One entry: `used` last at that time (UTC); `needed` is null where skblab cannot tell."""

    kind: str
    key: str
    name: str
    path: Path
    bytes: int
    used: datetime
    in_use: bool
    needed: bool | None


class CacheListing(Closed):
    """What `skblab cache list --json` prints; sizes in bytes."""

    schema_name: Literal["skblab.cache/1"] = "skblab.cache/1"
    cache: Path
    bytes: int
    bound_bytes: int
    entries: tuple[CacheEntry, ...]


class CachePruned(Closed):
    """What `skblab cache prune --json` prints; with `dry_run`, nothing is removed."""

    schema_name: Literal["skblab.cache-prune/1"] = "skblab.cache-prune/1"
    dry_run: bool
    bytes: int
    removed: tuple[CacheEntry, ...]


class CampaignStatus(Closed):
    """How the tasks of one command stand."""

    campaign: str
    title: str
    again: str = Field(description="the command that asks for it")
    tasks: int
    done: int = Field(description="tasks that have a result")
    failed: dict[str, str] = Field(description="key of each task that has failed, and why")
    missing: int = Field(description="tasks that no element has, and that are to be submitted")
    running: int = Field(description="elements that run on the cluster")
    elements: dict[str, int] = Field(description="elements on the cluster by state")


class JobsStatus(Closed):
    """What `skblab jobs status --json` prints; `squeue`: whether the cluster was asked."""

    schema_name: Literal["skblab.jobs/2"] = "skblab.jobs/2"
    store: Path
    squeue: bool
    campaigns: tuple[CampaignStatus, ...]
    damaged: dict[str, str] = Field(description="campaigns that cannot be read, and why")


# By command, what `--json` prints: the name of its schema in results-schema/, and the model.
PRINTED: dict[str, dict[str, type[BaseModel]]] = {
    "analyze": {"analyze": AnalyzeDocument},
    "doctor": {"doctor": Doctor},
    "traffic calibrate": {"traffic-calibration": Calibration},
    "demo": {"summary": SummaryDocument},
    "report": {"summaries": Summaries},
    "kselftest": {"kselftest": Selftests, "kselftest-compare": ComparedSelftests},
    "soak": {"soak": Soak},
    "sweep": {"summary": SummaryDocument},
    "tune": {"tune": Tuned, "tune-plan": TunePlan},
    "resume": {"summary": SummaryDocument},
    "runs list": {"runs": RunsListing},
    "runs pack": {"packed-runs": PackedRuns},
    "runs figures": {"run-figures": FiguresOverTime},
    "runs query": {"query": QueryAnswer},
    "cache list": {"cache": CacheListing},
    "cache prune": {"cache-prune": CachePruned},
    "jobs status": {"jobs": JobsStatus},
    "kernel build": {"built-kernel": BuiltKernel},
    "kernel package": {"made-packages": MadePackages},
    "kernel list": {"built-kernels": BuiltKernels},
    "kernel config-diff": {"config-diff": ConfigDifferences},
    "kernel patches-check": {"checked-patches": CheckedPatches},
    "bench patch": {"bench": BenchDocument},
    "bench senders": {"senders": Senders},
    "bench functions": {"functions": FunctionsDocument},
    "traffic run": {"summary": SummaryDocument},
    "profile": {"functions": FunctionsDocument, "functions-of-settings": FunctionsOfSettings},
    "compare": {"compare": CompareDocument},
    "bisect": {"bisect": BisectDocument},
    "probe layers": {"pathlat": PathlatDocument, "scripts": ScriptsDocument},
    "probe functions": {"functimes": FunctimesDocument},
    "probe study": {"study": Study},
    "probe verify": {"verify": Verified},
}
# Schemas that skblab_analysis.schemas writes, since their documents are stored as well.
STORED = frozenset(
    ("summary", "bench", "bisect", "compare", "functimes", "functions", "pathlat", "scripts")
)
# Commands that print no figures, and what they print.
WITHOUT = {
    "lab-root": "a path",
    "boot": "what its command prints",
    "ssh": "what its command prints",
    "jobs try": "how many tasks have a result",
    "jobs resume": "how many tasks have a result",
    "jobs cancel": "how many elements ended",
    "bundle": "where the archive is, and its size",
    "cleanup": "how many testbeds it put back",
    "traffic clock": "the document of its program, always",
    "traffic echo": "the document of its program, always",
    "traffic export": "how many packets it has written",
    "traffic import": "its document, always: traffic-import.schema.json",
    "traffic program": "a path",
    "traffic receive": "the document of its program, always",
    "traffic rtt": "the document of its program, always",
    "traffic send": "the document of its program, always",
    "traffic tcp-crr": "the document of its program, always",
    "traffic tcp-rr": "the document of its program, always",
    "traffic tcp-serve": "the document of its program, always",
    "traffic tcp-stream": "the document of its program, always",
    "traffic wakeup": "the document of its program, always",
}
