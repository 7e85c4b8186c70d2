# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the instructions of a packet go, by kernel function: of one kernel or row, or of two.

Each part of the work is run with few packets and with many. What lies between the two, divided by
the packets between them, is what one more packet takes: what begins and ends a run cancels. This
is done for the guest's clock, which counts all instructions, and for the count of each function;
where the functions do not add up to the clock, nothing is said.

A string instruction (rep movsb) counts once for each time it is come to, whatever it moves. The
emulator counts each further iteration as an instruction, and so does the clock; a processor does
many at once. They are kept apart: a kernel that copies in another way is not eight times as costly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from skblab_analysis.base.checked import Closed, RefusedError
from skblab_analysis.base.real import SignedReal
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.bench import Family, Part, Row, RowName
from skblab_analysis.formats.memory import Memory
from skblab_analysis.formats.run import Environment, Timing

# The row to compare with, and the row itself.
Side = Literal["a", "b"]
Case = Literal["forward", "receive", "poll"]
Destinations = Literal["fixed", "random"]
# The parts that a case adds up, and those that it takes off, of the same row. Receiving is with
# its generator: a packet for the socket passes no sink, as the tester's do (see cost/bench.py).
CASES: dict[Case, tuple[tuple[Part, ...], tuple[Part, ...]]] = {
    "forward": (("forward",), ("tester",)),
    "receive": (("queue", "read"), ()),
    "poll": (("tester",), ()),
}
AGREEMENT = 0.001
# What a packet takes among many differs from what it takes among few by 0.3 % at most, where
# nothing else runs.
MOST_UNEVEN = 0.01
FILE = "functions.json"
# Digits of a commit, where it is shown.
COMMIT = 12
# Title of the row that an experiment's settings are compared with.
BASELINE = "baseline"
# Of several rows that are compared with one.
FILES = "functions*.json"


def file_of(number: int) -> str:
    """Return the name of a document, of several that are of one run; the first is number 1."""
    return FILE if number == 1 else f"functions-{number}.json"


class Run(Closed):
    """One run of packets in one part of the work."""

    row: RowName = Field(description="the row it belongs to")
    repeat: Whole = Field(description="number of the repeat")
    part: Part = Field(description="what was run: tester, forward, queue or read")
    packets: Positive = Field(description="packets sent")
    delivered: Whole = Field(description="packets that the sink or the reader counted")
    instructions: Positive = Field(description="guest instructions by the guest's own clock")
    counted: Positive = Field(
        description="guest instructions by the counts of all functions, with further iterations"
    )


class Taken(NamedTuple):
    """What a packet takes in one function of one row: see `Function`."""

    own: float
    again: float
    inclusive: float | None


class Function(Closed):
    """What one function executes for a packet in either row."""

    name: str
    a: SignedReal = Field(description="instructions per packet in row a; 0 where there is none")
    b: SignedReal = Field(description="instructions per packet in row b")
    a_again: SignedReal = Field(
        default=0.0,
        description="further iterations of string instructions per packet in row a; "
        "before functions/3 they are among the instructions",
    )
    b_again: SignedReal = Field(default=0.0, description="the same in row b")
    a_inclusive: SignedReal | None = Field(
        default=None,
        description="instructions per packet in row a of the function and of all that it called, "
        "without further iterations; not known before functions/5",
    )
    b_inclusive: SignedReal | None = Field(default=None, description="the same in row b")

    def of(self, side: Side) -> Taken:
        """Return what row a or row b takes in it."""
        if side == "a":
            return Taken(self.a, self.a_again, self.a_inclusive)
        return Taken(self.b, self.b_again, self.b_inclusive)

    @property
    def executed(self) -> bool:
        """Whether a packet takes an instruction of its own in either row."""
        return bool(self.a or self.b or self.a_again or self.b_again)

    @property
    def calls(self) -> bool:
        """Whether a packet takes what it calls, in either row, to the tenth of an instruction."""
        return any(round(of or 0.0, 1) for of in (self.a_inclusive, self.b_inclusive))

    @property
    def difference(self) -> float:
        """What row b adds, in instructions per packet."""
        return self.b - self.a

    @property
    def inclusive_difference(self) -> float:
        """What row b adds with all that the function called; 0 where that is not known."""
        return (self.b_inclusive or 0.0) - (self.a_inclusive or 0.0)


class Layer(Closed):
    """What a packet takes in one layer of its path in either row: see `formats.bylayer`."""

    name: str = Field(description="of the catalogue of layers; around: in none")
    a: SignedReal = Field(description="instructions per packet in row a; 0 where there is none")
    b: SignedReal = Field(description="instructions per packet in row b")

    @property
    def difference(self) -> float:
        """What row b adds, in instructions per packet."""
        return self.b - self.a


class Identity(Closed):
    """A kernel as it was named, and what it was built from."""

    name: str = Field(description="as --kernel names it")
    release: str = Field(description="as `uname -r` says")
    key: str = Field(description="names its content in the cache")
    source: str = Field(description="version of its source")
    revision: str | None = Field(default=None, description="the commit, of a git repository")
    source_digest: str = Field(description="names the content of its source")
    config_sha256: str = Field(description="SHA-256 of its .config")
    patches: tuple[str, ...] = Field(description="patches applied, in order; empty: none")
    lacking: tuple[str, ...] = Field(
        default=(), description="options of kconfig/ that this version does not have, or not so"
    )

    @property
    def commit(self) -> str:
        """The commit as tables have it, and whether its files were changed; empty without one."""
        commit, dirty, _ = (self.revision or "").partition("-dirty")
        return f"{commit[:COMMIT]}{dirty}"


class FunctionsDocument(Closed):
    """The whole of `functions.json`."""

    schema_: Literal[
        "skblab.functions/1",
        "skblab.functions/2",
        "skblab.functions/3",
        "skblab.functions/4",
        "skblab.functions/5",
        "skblab.functions/6",
        "skblab.functions/7",
        "skblab.functions/8",
        "skblab.functions/9",
    ] = Field(default="skblab.functions/9", alias="schema")
    again: str = Field(description="the command that runs it again")
    case: Case = Field(description="forward, receive or poll")
    family: Family = Field(description="4: IPv4, 6: IPv6")
    destinations: Destinations = Field(
        default="fixed",
        description="all packets go to one address, or each to a random one; fixed before "
        "functions/7",
    )
    a: Row | None = Field(default=None, description="the row that b is compared with, if any")
    b: Row
    kernels: dict[Side, Identity] = Field(
        default_factory=dict, description="in a profile of kernels: which these are"
    )
    settings: dict[Side, dict[str, str]] = Field(
        default_factory=dict,
        description="knobs that the router had set, and their values, by row; others are as the "
        "kernel has them",
    )
    clock: dict[Side, SignedReal] = Field(
        description="instructions per packet by the guest's clock, by row"
    )
    functions: tuple[Function, ...] = Field(description="the largest difference first")
    layers: tuple[Layer, ...] = Field(
        default=(),
        description="the same by layer, in the order of the path; none where stacks are not whole, "
        "and before functions/6",
    )
    memory: Memory | None = Field(
        default=None,
        description="what a packet misses in simulated caches, if that was asked for; not before "
        "functions/7",
    )
    notes: tuple[str, ...] = Field(
        default=(), description="what is to be known of the figures, in sentences"
    )
    runs: tuple[Run, ...]
    versions: dict[str, str] = Field(default_factory=dict, description="tool to version")
    environments: dict[str, Environment] = Field(
        default_factory=dict,
        description="kernel, guest and host, by kernel release, in a profile by row",
    )
    timings: tuple[Timing, ...] = ()

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        rows = {"b"} if self.a is None else {"a", "b"}
        if self.clock.keys() != rows:
            raise ValueError(
                f"the clock is of {', '.join(sorted(self.clock)) or 'nothing'}: expected "
                f"{', '.join(sorted(rows))}"
            )
        return self


@dataclass(frozen=True)
class Counted:
    """A run, and what each function, or each address, executed in it.

    `again` is what was executed beside that in further iterations of string instructions.
    """

    run: Run
    by_name: Mapping[str, int]
    again: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What a packet takes in one row: by the clock, which has `again` in it, and by name."""

    clock: float
    by_name: Mapping[str, float]
    again: Mapping[str, float] = field(default_factory=dict)


NOTHING = Cost(0.0, {})


def cost(
    found: Sequence[Counted], case: Case, agreement: float = AGREEMENT, *, tester: bool = False
) -> Cost:
    """Return what a packet takes by the runs of one row, those of the case's parts.

    With `tester` nothing is taken off for those who send and receive. Of several runs of one size
    the least is taken. Raises RefusedError where a part was not run with two sizes, where a packet
    got lost, or where functions and clock disagree.
    """
    plus, minus = CASES[case]
    minus = () if tester else minus
    clock = 0.0
    by_name: dict[str, float] = {}
    again: dict[str, float] = {}
    for part in (*plus, *minus):
        one = _slope([each for each in found if each.run.part == part], part, agreement)
        sign = -1 if part in minus else 1
        clock += sign * one.clock
        for sums, of in ((by_name, one.by_name), (again, one.again)):
            for name, value in of.items():
                sums[name] = sums.get(name, 0.0) + sign * value
    return Cost(clock, by_name, again)


@dataclass(frozen=True)
class Uneven:
    """A part in which a packet takes more or less among many than among few, in instructions."""

    part: Part
    few: int
    many: int
    among_few: float
    among_many: float


def uneven(found: Sequence[Counted]) -> tuple[Uneven, ...]:
    """Return the parts of a row that are uneven: something else ran meanwhile.

    Of several runs of one size the least is taken.
    """
    least: dict[Part, dict[int, int]] = {}
    for each in found:
        of = least.setdefault(each.run.part, {})
        size, taken = each.run.packets, each.run.instructions
        of[size] = min(taken, of.get(size, taken))
    each_part = (
        Uneven(part, few, many, of[few] / few, of[many] / many)
        for part, of in least.items()
        for few, many in [(min(of), max(of))]
    )
    return tuple(
        one
        for one in each_part
        if abs(one.among_many - one.among_few) > MOST_UNEVEN * min(one.among_few, one.among_many)
    )


def _slope(found: Sequence[Counted], part: Part, agreement: float) -> Cost:
    for each in found:
        if each.run.delivered != each.run.packets:
            raise RefusedError(
                f"row {each.run.row}, {part}: {each.run.delivered} of {each.run.packets} "
                "packets arrived"
            )
    sizes = sorted({each.run.packets for each in found})
    if len(sizes) != 2:
        raise RefusedError(f"{part} was run with {len(sizes)} numbers of packets, expected 2")
    small, large = (
        min(
            (counted for counted in found if counted.run.packets == size),
            key=lambda one: one.run.instructions,
        )
        for size in sizes
    )
    more = sizes[1] - sizes[0]

    by_name = _each(small.by_name, large.by_name, more)
    again = _each(small.again, large.again, more)
    clock = (large.run.instructions - small.run.instructions) / more
    counted = sum(by_name.values()) + sum(again.values())
    if abs(counted - clock) > agreement * abs(clock):
        raise RefusedError(
            f"row {large.run.row}, {part}: the functions add up to {counted:.1f} instructions per "
            f"packet and the guest's clock says {clock:.1f}, further apart than {agreement:.1%}; "
            "run it again with more --packets or --repeats"
        )
    return Cost(clock, by_name, again)


def _each(few: Mapping[str, int], many: Mapping[str, int], more: int) -> dict[str, float]:
    return {name: (many.get(name, 0) - few.get(name, 0)) / more for name in {**few, **many}}


def compare(
    a: Cost,
    b: Cost,
    a_inclusive: Mapping[str, float] | None = None,
    b_inclusive: Mapping[str, float] | None = None,
) -> tuple[Function, ...]:
    """Return every function that either row executes, the largest difference first.

    What one row takes by itself is its difference to NOTHING. The last two are what functions take
    with all that they called, where that is known.
    """
    names = {
        **a.by_name,
        **b.by_name,
        **a.again,
        **b.again,
        **(a_inclusive or {}),
        **(b_inclusive or {}),
    }
    found = [
        Function(
            name=name,
            a=a.by_name.get(name, 0.0),
            b=b.by_name.get(name, 0.0),
            a_again=a.again.get(name, 0.0),
            b_again=b.again.get(name, 0.0),
            a_inclusive=None if a_inclusive is None else a_inclusive.get(name, 0.0),
            b_inclusive=None if b_inclusive is None else b_inclusive.get(name, 0.0),
        )
        for name in names
    ]
    found = [one for one in found if one.executed or one.calls]
    return tuple(sorted(found, key=lambda one: (-abs(one.difference), one.name)))


def cut(
    functions: Iterable[Function], least: float, *, inclusive: bool = False
) -> tuple[list[Function], list[Function]]:
    """Return the functions that differ by `least` instructions per packet or more, and the rest.

    `inclusive`: that differ so with all that they called, those that differ most first.
    """
    shown: list[Function] = []
    rest: list[Function] = []
    for function in functions:
        differs = function.inclusive_difference if inclusive else function.difference
        (shown if abs(differs) >= least else rest).append(function)
    if inclusive:
        shown.sort(key=lambda one: (-abs(one.inclusive_difference), one.name))
    return shown, rest


def total(functions: Iterable[Function], name: str) -> Function:
    """Return the sum of functions under a name of its own."""
    listed = list(functions)
    # A sum may be beyond what a document has.
    return Function.model_construct(
        name=name,
        a=sum(function.a for function in listed),
        b=sum(function.b for function in listed),
        a_again=sum(function.a_again for function in listed),
        b_again=sum(function.b_again for function in listed),
    )
