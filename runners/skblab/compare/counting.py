# SPDX-License-Identifier: GPL-2.0-or-later
"""One workload in one boot: a guest of its own, whose instructions are counted by function.

So nothing of one workload is left for the next one, a panic costs one figure, and a workload costs
the same whatever else is measured with it.
"""

from __future__ import annotations

import itertools
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skblab.bench import functions as counting
from skblab.bench.comparison import RECEIVER, ROUTER, SHARED
from skblab.bench.functions import Section, Symbols
from skblab.bench.measure import OUT
from skblab.compare.workload import Workload
from skblab.knobs.applying import applying, require_set
from skblab.knobs.values import Knobs
from skblab.lab import kernel
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.console import FATAL
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine.environment import describe, describe_guest
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport
from skblab.machine.watch import Watch
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.base.whole import MOST_COUNTED, whole
from skblab_analysis.formats import compare as records
from skblab_analysis.formats.compare import Cause, Figure
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.memory import KINDS, Misses
from skblab_analysis.formats.run import Environment

# Rounds with few packets and with many; few are such a part of many.
TURNS = 3
FEWER = 5
# What is kept of a function, in instructions per packet.
LEAST = 0.05
# Where the programs and the plugin are in a guest.
PROGRAMS = "/skblab/build"
# workload.sh's NOT_HERE.
NOT_HERE = 77
# Emulation on a loaded machine is slow and not dead.
SECONDS = 1200
MACHINES = {"router": ROUTER, "receiver": RECEIVER}
WARM_UP, FEW, MANY = ROUNDS = ("warm-up", "few", "many")
WHOLE, TESTER = PARTS = ("whole", "tester")
# What a kernel prints with: it takes a hundred thousand instructions to have a line on the console.
PRINTS = "vprintk_emit"
_LINE = re.compile(r"counted (\d+) (\S+) (\S+) (\d+) (\d+) (\d+) (\d+)")


class NoFigureError(SkblabError):
    """There is no figure of a workload, and who is the cause; `up`: the guest had come up."""

    def __init__(self, said: str, cause: Cause, *, up: bool = True) -> None:
        super().__init__(said)
        self.cause: Cause = cause
        self.up = up


class DisturbedError(SkblabError):
    """Functions and clock do not agree: the guest was idle, or others had its CPU."""


@dataclass(frozen=True)
class Shot:
    """One workload on one kernel, with knobs set or none, in boot number `boot`."""

    workload: Workload
    kernel: kernel.Kernel
    boot: int
    packets: int
    knobs: Knobs = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are named by."""
        return f"{self.workload.name}-{self.boot}"


@dataclass(frozen=True)
class Line:
    """What a workload said of one part of a round; each turn has a round with few and with many."""

    turn: int
    round: str
    part: str
    packets: int
    taken: int
    nanoseconds: int
    sections: int

    @classmethod
    def parse(cls, text: str) -> Line:
        """Parse a line of workload.sh's `counted`; SkblabError if it is none."""
        found = _LINE.fullmatch(text)
        try:
            if found is None or found[2] not in ROUNDS or found[3] not in PARTS:
                raise ValueError
            turn, *numbers = (whole(number, MOST_COUNTED) for number in found.group(1, 4, 5, 6, 7))
        except ValueError:
            raise SkblabError(
                f"the workload printed {one_line(text, 80)!r}: expected nothing but what `counted` "
                "of workload.sh prints"
            ) from None
        return cls(turn, found[2], found[3], *numbers)


@dataclass(frozen=True)
class _Round:
    """What was counted of one part of a round, by function."""

    line: Line
    by_name: Counter[str]
    again: int
    missed: Counter[str]

    @classmethod
    def of(cls, line: Line, sections: Iterator[Section], symbols: Symbols) -> _Round:
        """Take the sections of a line, the next ones."""
        by_name: Counter[str] = Counter()
        missed: Counter[str] = Counter()
        again = 0
        for _ in range(line.sections):
            section = next(sections, None)
            if section is None:
                raise SkblabError("fewer sections were counted than the workload says it ran")
            by_name.update(section.by_function(symbols))
            again += section.again_by_function(symbols).total()
            missed.update({kind: lines.total() for kind, lines in section.missed.items()})
        return cls(line, by_name, again, missed)


def figure(printed: str, sections: Sequence[Section], symbols: Symbols) -> Figure:
    """Return what a packet takes, by what a workload printed and the plugin counted.

    Of each function that is the median over the turns: what the kernel does now and then beside
    the packets is in few of them. A turn in which others had the CPU is left out, if most are
    good, and one in which the kernel printed a message, if it did not in all.

    Raises NoFigureError where packets got lost, and SkblabError where nothing can be said.
    """
    left = iter(sections)
    rounds: dict[tuple[int, str, str], _Round] = {}
    for line in map(Line.parse, printed.splitlines()):
        if line.round == WARM_UP:
            continue
        key = line.turn, line.part, line.round
        if key in rounds:
            raise SkblabError(f"the workload said twice what it counted: {line.part}, {line.round}")
        if line.taken != line.packets:
            raise NoFigureError(f"{line.part}: {line.taken} of {line.packets} arrived", "kernel")
        rounds[key] = _Round.of(line, left, symbols)
    if next(left, None) is not None:
        raise SkblabError("more sections were counted than the workload says it ran")
    parts = {WHOLE, *(part for _, part, _ in rounds)}
    numbers = sorted({turn for turn, _, _ in rounds} or {1})
    turns: list[Figure] = []
    silent: list[Figure] = []
    disturbed: list[DisturbedError] = []
    for turn in numbers:
        for part, of in itertools.product(sorted(parts), (FEW, MANY)):
            if (turn, part, of) not in rounds:
                raise SkblabError(f"the workload did not say what it counted: {part}, {of}")
        try:
            slopes = [
                _slope(rounds[turn, part, FEW], rounds[turn, part, MANY])
                for part in PARTS
                if part in parts
            ]
        except DisturbedError as error:
            disturbed.append(error)
            continue
        turns.append(slopes[0] if len(slopes) == 1 else _without(*slopes))
        if not any(of.by_name[PRINTS] for key, of in rounds.items() if key[0] == turn):
            silent.append(turns[-1])
    if 2 * len(disturbed) >= len(numbers):
        raise disturbed[0]
    return _median(silent or turns)


def _median(turns: Sequence[Figure]) -> Figure:
    names = sorted({name for one in turns for name in one.functions})
    by_name = {
        name: statistics.median(one.functions.get(name, 0.0) for one in turns) for name in names
    }
    return Figure(
        instructions=sum(by_name.values()),
        iterations=statistics.median(one.iterations for one in turns),
        clock=statistics.median(one.clock for one in turns),
        units=turns[0].units,
        functions={name: round(of, 4) for name, of in by_name.items() if abs(of) >= LEAST},
        missed=_median_missed([one.missed for one in turns if one.missed is not None]),
    )


def _median_missed(turns: Sequence[Misses]) -> Misses | None:
    """Return the median of each kind; None where no caches were simulated."""
    if not turns:
        return None
    return Misses(
        **{kind: statistics.median(getattr(one, kind) for one in turns) for kind in KINDS}
    )


def _slope(few: _Round, many: _Round) -> Figure:
    """Return what one more packet takes: what begins and ends a run cancels."""
    more = many.line.packets - few.line.packets
    if more < 1:
        raise SkblabError(f"{many.line.part}: many are {many.line.packets}, which are not more")
    names = {**few.by_name, **many.by_name}
    by_name = {name: (many.by_name[name] - few.by_name[name]) / more for name in names}
    again = (many.again - few.again) / more
    clock = (many.line.nanoseconds - few.line.nanoseconds) / more
    counts = sum(by_name.values()) + again
    if abs(counts - clock) > records.AGREEMENT * abs(counts):
        raise DisturbedError(
            f"{many.line.part}: the functions add up to {counts:.1f} instructions, and the guest's "
            f"clock says {clock:.1f}, further apart than {records.AGREEMENT:.1%}: the guest was "
            "idle meanwhile, or others had its CPU"
        )
    return Figure(
        instructions=counts - again,
        iterations=again,
        clock=clock,
        units=more,
        functions=by_name,
        missed=Misses(**{kind: (many.missed[kind] - few.missed[kind]) / more for kind in KINDS})
        if many.missed.total()
        else None,
    )


def _without(whole_: Figure, tester: Figure) -> Figure:
    names: Mapping[str, float] = {**whole_.functions, **tester.functions}
    return Figure(
        instructions=whole_.instructions - tester.instructions,
        iterations=whole_.iterations - tester.iterations,
        clock=whole_.clock - tester.clock,
        units=whole_.units,
        functions={
            name: whole_.functions.get(name, 0.0) - tester.functions.get(name, 0.0)
            for name in names
        },
        missed=whole_.missed - tester.missed if whole_.missed and tester.missed else None,
    )


@dataclass(frozen=True)
class Counting:
    """Counts workloads in guests: with what these see, and where logs and counts are kept.

    `notes` is told what is to be known of figures, each sentence once.
    """

    root: LabRoot
    shares: Sequence[Bind]
    logs: Path
    notes: dict[str, None] = field(default_factory=dict)
    caches: counting.Chosen | None = None

    def count(self, shot: Shot) -> tuple[Figure, Environment]:
        """Return what a packet takes, and where that was counted.

        Raises NoFigureError where the kernel under test is the cause that there is none, or lacks
        something, and another SkblabError where it is not.
        """
        counts = self.logs / f"counts-{shot.name}.txt"
        plugin = counting.argument(
            f"{PROGRAMS}/{counting.NAME}", f"{OUT}/{counts.name}", self.caches
        )
        spec = make_spec(exact=True).model_copy(update={"plugin": plugin, "sample": shot.boot})
        watch, up = Watch(), False
        try:
            with Guest.boot(
                spec,
                shot.kernel,
                self.root,
                shares=self.shares,
                log=self.logs / f"console-{shot.name}.log",
            ) as guest:
                up = True
                # What it said while it booted is of no packet.
                watch.sources["guest"] = guest.console
                watch.look()
                environment = describe(shot.kernel, {"exact": describe_guest(guest)})
                printed = self._run(shot, guest.transport)
                if guest.transport.run(["test", "-e", "/run/skblab-shared"]).status == 0:
                    self.notes[SHARED.format(shot.kernel.release)] = None
            if heard := watch.look():
                raise NoFigureError(f"its kernel complained: {reason(heard)}", "kernel")
            return self._figure(shot, printed, counts), environment
        except GuestError as death:
            # A warning while it boots ends no guest.
            complained: Sequence[object] = (
                watch.look() if up else [one for one in death.findings if one.kind in FATAL]
            )
            cause: Cause = "kernel" if complained else "other"
            raise NoFigureError(one_line(str(death)), cause, up=up) from death
        finally:
            # They are large, and the figure has what they say.
            for file in (counts, self.logs / _symbols(shot), self.logs / _undo(shot)):
                file.unlink(missing_ok=True)

    def _figure(self, shot: Shot, printed: str, counts: Path) -> Figure:
        listed = shot.kernel.symbols.read_text() if shot.kernel.symbols else ""
        loaded = (self.logs / _symbols(shot)).read_text()
        if shot.kernel.symbols:
            counting.require_same(listed, loaded, shot.kernel.symbols)
        return figure(printed, counting.parse(counts.read_text()), Symbols.parse(listed, loaded))

    def _run(self, shot: Shot, transport: Transport) -> str:
        """Lay out the workload, set the knobs, and send; return what it printed."""
        few = shot.packets // FEWER
        symbols = "loaded" if shot.kernel.symbols else "all"
        self._script(shot, transport, "prepare")
        rounds = f"rounds {TURNS} {few} {shot.packets} {symbols}"
        if not shot.knobs:
            return self._script(shot, transport, rounds)
        assert shot.workload.knobs is not None
        machine = MACHINES[shot.workload.knobs]
        with applying(transport, machine, self.logs / _undo(shot)) as applier:
            was_set = applier.apply(shot.knobs)
            require_set(was_set)
            printed = self._script(shot, transport, rounds)
            require_set(applier.look(was_set))
        return printed

    def _script(self, shot: Shot, transport: Transport, call: str) -> str:
        """Run a call of the workload's in the guest; return what it printed."""
        variables = {
            "programs": PROGRAMS,
            "symbols": f"{OUT}/{_symbols(shot)}",
            "turn": "0",
            "round": "",
            "packets": "",
            "marked": "",
        }
        begin = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())
        text = f"{begin}{shot.workload.script(call)}\n"
        word = call.split()[0]
        (self.logs / f"{shot.name}-{word}.sh").write_text(text)
        running = transport.start(["sh", "-euc", text])
        kept = self.logs / f"{shot.name}-{word}.txt"
        try:
            done = running.wait(SECONDS)
        except SkblabError:
            kept.write_text("".join([*running.take_lines(), running.take_errors()]))
            raise
        kept.write_text(done.stdout + done.stderr)
        if done.status == NOT_HERE:
            *_, said = done.stderr.splitlines() or [f"{word} says so"]
            raise NoFigureError(one_line(said), "lacking")
        return done.check(f"{shot.workload.name}: {word}").stdout


def _symbols(shot: Shot) -> str:
    return f"symbols-{shot.name}.txt"


def _undo(shot: Shot) -> str:
    return f"undo-{shot.name}"
