# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/explain/linux-versions.md, what versions of Linux cost, and its pictures, from stored runs.

A stored run is the document of a comparison in docs/versions/, compressed: xzcat shows it.
"""

from __future__ import annotations

import lzma
import re
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis.base import disk
from skblab_analysis.base.checked import RecordError, parse, read
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.tables import as_markdown
from skblab_analysis.base.words import joined, number, share, signed
from skblab_analysis.formats.compare import CompareDocument, Side
from skblab_analysis.report import pictures
from skblab_analysis.verdicts import all_sides, beside
from skblab_analysis.verdicts.all_sides import Step
from skblab_analysis.verdicts.picture import picture

TREE = Path(__file__).resolve().parents[2]
PAGE = TREE / "docs" / "explain" / "linux-versions.md"
RUNS = TREE / "docs" / "versions"
PICTURES = TREE / "docs" / "pictures"
SUFFIX = ".json.xz"
# Functions of a step, and steps, that the page has.
FUNCTIONS = 8
STEPS = 12
OF_A_STEP = 3


@dataclass(frozen=True)
class Part:
    """A stored run and its part of the page."""

    name: str
    title: str
    words: str

    @property
    def file(self) -> Path:
        """Where the run is stored."""
        return RUNS / f"{self.name}{SUFFIX}"

    @property
    def picture(self) -> str:
        """The name of its picture's files."""
        return f"versions-{self.name}"


PARTS = (
    Part(
        "packets",
        "Packets that are forwarded and received, from 6.12 on",
        "pktgen sends the packets. pktgen of Linux 6.1 keeps a part in each packet, which makes "
        "work for whoever takes it, so its figures cannot be compared with later ones. The figures "
        "of udp-receive4 have the generator in them.",
    ),
    Part(
        "sockets",
        "Sockets that send, and take, from 6.1 on",
        "Programs send by sockets: to a device that drops all packets, or to another namespace. "
        "The figures have the sender, and the receiver if there is one.",
    ),
)
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made from docs/versions/ by `make versions-page`. -->
# What packets cost, by version of Linux

Does a newer kernel need more instructions per packet? This page compares the kernels that Debian
ships, workload by workload, and lists the functions that changed. Know this before you read a
figure:

- From one kernel to the next the source differs, and so does Debian's configuration. In some steps
  the compiler differs, too. This page cannot tell which of them makes a difference.
- A string instruction such as `rep movsb` counts once, however much it moves. Cache misses and
  mispredicted branches are not counted. So more instructions are not always more time.
- One CPU takes one flow, and most packets have a NAPI poll of their own. A busy router takes up to
  64 packets in a poll, so what a kernel does once per poll weighs less there.
- The first kernel of a table was booted twice, each other one once. A difference of no more than
  the threshold means nothing.
- A function that was renamed, split or inlined appears as an increase and a decrease.

[Compare two kernels](../howto/compare-two-kernels.md) explains the figures and the threshold,
[workloads](../reference/workloads.md) what each workload sends, and
[kernels](../reference/kernels.md) the names of kernels. [Find the slow
commit](../howto/find-the-slow-commit.md) says how to go on from here.
"""
END = """
## Make this page again

Each part is one run:

{again}

The command prints the folder of the run. `make versions-page RUNS={part}=FOLDER/compare.json`
stores the run here and makes the page. All figures are those of the runs in `docs/versions/`:
`xzcat docs/versions/{part}.json.xz` prints one.
"""
# Options that may be in the path of a packet whatever it is.
CORE = re.compile(
    r"(?:PREEMPT\w*|HZ(?:_\d+)?|UBSAN\w*|SLUB\w*|NODES_SHIFT|NR_CPUS|LIST_HARDENED|DEBUG_LIST|"
    r"FORTIFY_SOURCE|INIT_ON_\w+|K?CFI\w*|BPF_JIT\w*|RPS|XPS|PAGE_POOL\w*|"
    r"X86_KERNEL_IBT|KFENCE|SLAB_\w+|MEMCG\w*|NET_XGRESS|CALL_\w+|NET_RX_BUSY_POLL|NETFILTER_[EI]\w+GRESS|CGROUP_NET\w*|SECURITY_NETWORK)"
)
MOST_OPTIONS = 12
_SHORT = re.compile(r"^(debian:\d+\.\d+)\..*$")
# Columns of words.
IN_CORE, UNIT, MOST = WORDS = (
    "some of these",
    "instructions per",
    "functions that changed most",
)
# Iterations of string instructions that differ by this share of the cost are told.
TOLD_ITERATIONS = 0.01


def stored(part: Part) -> CompareDocument:
    """Return the stored run of a part; RecordError if it is none."""
    try:
        text = lzma.decompress(part.file.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise RecordError(
            f"{part.file}: no document of a comparison, compressed: {error}"
        ) from error
    return parse(CompareDocument, text.decode(errors="replace"), str(part.file))


def store(part: Part, run: Path) -> None:
    """Store a run's document; UsageError if it has fewer than two kernels, or was stopped."""
    document = read(CompareDocument, run, "the document of a comparison")
    if len(document.sides) < 2:
        raise UsageError(f"{run}: one side alone; expected versions of Linux, the oldest first")
    if lacking := {one.name for one in document.workloads} - {
        one.workload for one in document.verdicts
    }:
        raise UsageError(f"{run}: it was stopped before {', '.join(sorted(lacking))}")
    text = document.model_dump_json(by_alias=True)
    part.file.parent.mkdir(exist_ok=True)
    disk.write_whole(part.file, lzma.compress(text.encode(), preset=9))


def page(documents: Sequence[tuple[Part, CompareDocument]]) -> str:
    """Return the page's text."""
    lines = [HEAD]
    for part, document in documents:
        lines += _part(part, document)
    told = _filled(f"*{beside.FUNCTIONS_TOLD.replace(':', '*:', 1)}")
    lines.append(f"\n## How to read the tables of functions\n\n{told}\n")
    again = "\n".join(
        f"    # {part.name}\n    {_command(document)}" for part, document in documents
    )
    return "\n".join(lines) + END.format(again=again, part=PARTS[0].name)


def _names(document: CompareDocument) -> list[str]:
    """Return what the kernels are called: debian:6.12, however much of it was named."""
    full = beside.names(document)
    short = [_SHORT.sub(r"\1", name) for name in full]
    return short if len(set(short)) == len(short) else full


def _command(document: CompareDocument) -> str:
    """Return the command of a run, with the kernels' names in full."""
    command = f"{document.again} "
    for one in document.sides:
        command = command.replace(f" {one.name} ", f" {one.kernel.name} ")
    return " \\\n        --workload".join(command.strip().split(" --workload"))


def _part(part: Part, document: CompareDocument) -> Iterator[str]:
    names = _names(document)
    yield f"## {part.title}\n\n{_filled(part.words)}\n"
    yield from _table(
        ("kernel", "source", "compiler", "options changed", IN_CORE),
        [
            (
                name,
                f"{one.kernel.release}, {one.kernel.source}",
                _compiler(one),
                *(_options(document, side) if side else ("", "")),
            )
            for side, (name, one) in enumerate(zip(names, document.sides, strict=True))
        ],
    )
    for note in document.notes:
        yield f"\n{_filled(note)}"
    yield ""
    steps = [
        (side, all_sides.steps(document, side))
        for side in range(1, len(names))
        if all_sides.has_steps(document)
    ]
    for side, found in steps:
        yield f"{_filled(beside.sentences(names[0], names[side - 1], names[side], found))}\n"
    yield from _iterations(document, names)
    yield (
        f"![Change relative to {names[0]}, in per cent, by workload]"
        f"(../pictures/{part.picture}.png)\n"
    )
    thresholds = {one.workload: one.threshold for _, found in steps for one in found}
    units = {one.name: one.unit for one in document.workloads}
    yield from _table(
        ("workload", UNIT, *names, beside.CHANGE, "threshold"),
        [
            (name, units[name], *cells, number(thresholds.get(name), 1))
            for name, *cells in beside.rows(document)
        ],
    )
    yield (
        f"\n*{beside.CHANGE}*: {names[-1]} relative to {names[0]}. *threshold*: in instructions. "
        "–: no figure.\n"
    )
    yield from _largest(steps, names)
    for side, found in steps:
        changed = all_sides.changed(found)[:FUNCTIONS]
        if changed:
            yield f"\n### Functions that changed from {names[side - 1]} to {names[side]}\n"
            rows = [(f"`{name}`", *cells) for name, *cells in beside.step_rows(changed)]
            yield from _table(beside.STEP_COLUMNS, rows)


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _options(document: CompareDocument, side: int) -> tuple[str, str]:
    """Return how many options differ from the side before, and some of them."""
    before, after = (_differing(document, one) for one in (side - 1, side))
    changed = []
    for option in sorted(before.keys() | after.keys()):
        of_first = (after.get(option) or before[option])[0]
        values = (one.get(option, ("", of_first))[1] for one in (before, after))
        # Whether an option is off or unknown, only the first kernel's list tells.
        old, new = ("n" if value == "none" else value for value in values)
        if old != new:
            changed.append((option, old, new))
    core = [f"`{option}` {old} → {new}" for option, old, new in changed if CORE.fullmatch(option)]
    more = f", and {len(core) - MOST_OPTIONS} more" if len(core) > MOST_OPTIONS else ""
    return str(len(changed)), ", ".join(core[:MOST_OPTIONS]) + more


def _differing(document: CompareDocument, side: int) -> dict[str, tuple[str, str]]:
    """Return by option what the first side has and what this one has, where they differ."""
    found = {}
    for line in document.configurations.get(str(side), ()):
        option, _, values = line.partition(": ")
        first, _, own = values.partition(" -> ")
        found[option] = first, own
    return found


def _iterations(document: CompareDocument, names: Sequence[str]) -> Iterator[str]:
    """Yield where string instructions moved so much more or less that it may be time."""
    told = []
    for cost in all_sides.costs(document):
        values = [_moved(document, cost.workload.name, side) for side in range(len(names))]
        for side in range(1, len(names)):
            before, after, whole = values[side - 1], values[side], cost.values[side - 1]
            if None in (before, after, whole):
                continue
            assert before is not None and after is not None and whole is not None
            if abs(after - before) > TOLD_ITERATIONS * whole:
                told.append(
                    f"{cost.workload.name} {number(before)} to {number(after)} ({names[side]})"
                )
    if told:
        said = (
            "The figures do not have the further iterations of string instructions. These changed "
            f"by more than {share(TOLD_ITERATIONS, 0)} of the cost: {joined(told)}."
        )
        yield f"{_filled(said)}\n"


def _moved(document: CompareDocument, workload: str, side: int) -> float | None:
    boots = [
        one.figure.iterations
        for one in document.measured
        if (one.workload, one.side) == (workload, side) and one.figure is not None
    ]
    return statistics.fmean(boots) if boots else None


def _compiler(side: Side) -> str:
    """Return what built a kernel: of ours that is a package and its version."""
    return side.toolchain.get("compiler") or next(
        (f"{name} {of}" for name, of in side.toolchain.items() if name.startswith("gcc")), ""
    )


def _largest(steps: Sequence[tuple[int, Sequence[Step]]], names: Sequence[str]) -> Iterator[str]:
    """Yield the largest steps, each of a workload, and the functions that made them."""
    found = [(side, step) for side, of in steps for step in all_sides.differing(of)]
    if not found:
        return
    found.sort(key=lambda one: -abs(one[1].share))
    yield "The largest changes from one kernel to the next:\n"
    yield from _table(
        ("workload", "from", "to", "instructions", "of the older", MOST),
        [
            (
                step.workload,
                names[side - 1],
                names[side],
                signed(step.difference, 0),
                share(step.share, 1, sign=True),
                _most(step),
            )
            for side, step in found[:STEPS]
        ],
    )


def _most(step: Step) -> str:
    return ", ".join(
        f"`{name}` {signed(value, 0)}"
        for name, value in step.functions[:OF_A_STEP]
        if abs(value) >= all_sides.LEAST_TOLD
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    words = {"workload", "function", "from", "to", "kernel", "source", "compiler", *WORDS}
    return as_markdown(columns, rows, words)


def picture_of(part: Part, document: CompareDocument) -> Picture | None:
    """Return a part's picture before it is drawn."""
    return picture(part.picture, _names(document), all_sides.costs(document))


def draw(part: Part, document: CompareDocument, gnuplot: pictures.GnuplotRunner) -> None:
    """Write a part's picture, and have gnuplot draw it if it is not as it was."""
    made = picture_of(part, document)
    if made is not None and not pictures.write(made, PICTURES):
        pictures.draw(made, PICTURES, gnuplot)


def make(runs: Sequence[str], gnuplot: pictures.GnuplotRunner) -> None:
    """Store the runs that are named as NAME=FILE, and make the page and its pictures."""
    known = {part.name: part for part in PARTS}
    for run in runs:
        name, _, file = run.partition("=")
        if name not in known or not file:
            raise UsageError(f"{run}: expected NAME=FILE, NAME one of {', '.join(known)}")
        store(known[name], Path(file))
    documents = [(part, stored(part)) for part in PARTS if part.file.exists()]
    for part, document in documents:
        draw(part, document, gnuplot)
    disk.write_whole(PAGE, page(documents))
