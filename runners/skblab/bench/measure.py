# SPDX-License-Identifier: GPL-2.0-or-later
"""Running rows in guests of one kernel, and reading what they left: trials and proofs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import cast

from skblab.bench import readers
from skblab.bench.plan import Row
from skblab.machine.guest import Guest
from skblab.testbeds import base, netns
from skblab_analysis.base import checked
from skblab_analysis.base.errors import SkblabError, one_line, understood
from skblab_analysis.base.whole import MOST_COUNTED, whole
from skblab_analysis.formats.bench import FAMILIES, PARTS, Family, Part, Proof, Trial, WallPair

# Emulation on a loaded machine is slow and not dead.
SECONDS = 4 * 3600
ASIDE = ("warm-up", "proof")
OUT = "/skblab/out"


@dataclass(frozen=True)
class Line:
    """One line of the script's output: a trial, `aside` from the counts or not."""

    aside: str
    row: str
    repeat: int
    part: Part
    family: Family
    packets: int
    delivered: int
    nanoseconds: int

    @classmethod
    def parse(cls, text: str) -> Line:
        """Parse a line of bench.sh; SkblabError if it is none."""
        words = text.split()
        aside = words.pop(0) if words and words[0] in ASIDE else ""
        try:
            row, repeat, part, family, packets, delivered, nanoseconds = words
            numbers = [
                whole(word, MOST_COUNTED)
                for word in (repeat, family, packets, delivered, nanoseconds)
            ]
            if part not in PARTS or numbers[1] not in FAMILIES:
                raise ValueError
        except ValueError:
            raise SkblabError(
                f"the benchmark printed {one_line(text, 80)!r}: expected row, repeat, part, "
                "family, packets, packets delivered and nanoseconds; its script and output are in "
                "logs/"
            ) from None
        return cls(
            aside,
            row,
            numbers[0],
            part,
            numbers[1],
            *numbers[2:],
        )

    def trial(self, boot: int) -> Trial:
        """Return the trial as the records keep it: a nanosecond is an instruction."""
        found = {
            "row": self.row,
            "boot": boot,
            "repeat": self.repeat,
            "part": self.part,
            "family": self.family,
            "packets": self.packets,
            "delivered": self.delivered,
            "instructions": self.nanoseconds,
        }
        return checked.parse(Trial, found, "a trial of the benchmark")


@dataclass
class Found:
    """What guests of one kernel gave."""

    trials: list[Trial] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    polls: dict[str, float] = field(default_factory=dict)
    # What kernels complained of while a row was counted.
    complaints: dict[str, str] = field(default_factory=dict)


def script(rows: Sequence[Row], boot: int, packets: int, repeats: int) -> str:
    """Return what a guest runs: the set-up, then every row, as often as there are repeats."""
    lines = head(boot, packets)
    for repeat in range(1, repeats + 1):
        lines.append(f"repeat={repeat}")
        # A drift would not look like a difference: every other round runs backwards.
        order = rows if (boot + repeat) % 2 else tuple(reversed(rows))
        lines += [f"run {shlex.join(row.words())}" for row in order]
    return "\n".join(lines) + "\n"


def head(boot: int, packets: int, **more: str) -> list[str]:
    """Return the lines that come before any row: settings, `more` of them too, and the set-up."""
    settings = {
        "boot": str(boot),
        "packets": str(packets),
        "out": OUT,
        "programs": "/skblab/build",
        "sources": "/skblab/tree/probes/bench",
        **more,
    }
    lines = ["#!/bin/sh", *(f"{name}={shlex.quote(value)}" for name, value in settings.items())]
    body = (resources.files(__package__) / "bench.sh").read_text()
    return [*lines, base.functions(*netns.PARTS), symbols(), body]


def symbols() -> str:
    """Return the shell function that lists where a kernel has its functions."""
    return (resources.files(__package__) / "symbols.sh").read_text()


def measure(
    guests: Sequence[Guest], rows: Sequence[Row], packets: int, repeats: int, name: str, logs: Path
) -> Found:
    """Run the rows in every guest at once; guest n's trials are boot n's."""
    running = []
    for boot, guest in enumerate(guests):
        text = script(rows, boot, packets, repeats)
        (logs / f"bench-{name}-{boot}.sh").write_text(text)
        running.append(guest.transport.start(["sh", "-euc", text]))
    found = Found()
    for boot, trials in enumerate(running):
        done = trials.wait(SECONDS)
        (logs / f"bench-{name}-{boot}.txt").write_text(done.stdout + done.stderr)
        done.check(f"the benchmark's boot {boot} of kernel {name}")
        read(done.stdout, rows, boot, logs, found)
    return found


def read(output: str, rows: Sequence[Row], boot: int, logs: Path, found: Found) -> None:
    """Add one boot's trials to `found`, and for every row what proves that it did its work."""
    lines = [Line.parse(line) for line in output.splitlines()]
    found.trials += [line.trial(boot) for line in lines if not line.aside]
    for row in rows:
        if row.proof == "none":
            continue
        for repeat in sorted({line.repeat for line in lines if line.row == row.name}):
            own = [line for line in lines if (line.row, line.repeat) == (row.name, repeat)]
            proof = _proof(row, boot, repeat, own, logs)
            found.proofs.append(proof)
            if row.group == "napi":
                found.polls[row.name] = proof.seen.get("runs", 0) / sum(
                    line.packets for line in own if line.aside == "proof"
                )


def sent(lines: Sequence[Line], *, proof: bool) -> dict[str, int]:
    """Return the packets of each part, in the runs apart that prove, or in the others."""
    found: Counter[str] = Counter()
    for line in lines:
        if (line.aside == "proof") is proof:
            found[line.part] += line.packets
    return dict(found)


def _proof(row: Row, boot: int, repeat: int, lines: Sequence[Line], logs: Path) -> Proof:
    apart = sent(lines, proof=True)
    counted = sent(lines, proof=False)
    stem = f"{row.name}-{boot}-{repeat}"
    parse: Callable[[str], dict[str, int]]
    if row.proof == "runs":
        parse, suffix, how = readers.runs, "json", "the kernel's count of its runs, in a run apart"
        expected = {"runs": sum(apart.values())}
    elif row.proof == "polls":
        parse, suffix, how = readers.polls, "txt", "the histograms themselves, in a run apart"
        expected = {"runs": sum(apart.values())}
    elif row.proof == "debugfs":
        parse, suffix, how = readers.debugfs, "txt", "the histograms themselves"
        expected = readers.stamps_expected(counted) if row.stamped else {}
    elif row.proof == "pathlat":
        parse, suffix, how = readers.pathlat, "json", "its own document"
        if row.stamped:
            expected = readers.stamps_expected(counted)
        else:
            seen_at = readers.paths_expected(counted)
            expected = {one: seen_at[one] for one in seen_at if row.looks_at(*one.split())}
    else:
        how = "the histograms themselves"
        expected = readers.tool_expected(counted)
        suffix = "json" if row.proof == "hists" else "txt"
        by_reader = {"bpf": readers.path_map, "bpftrace": readers.bpftrace}
        parse = by_reader.get(row.tool, readers.systemtap)
    try:
        text = (logs / f"{stem}.{suffix}").read_text(errors="replace")
    except OSError as error:
        raise SkblabError(f"cannot read logs/{stem}.{suffix}: {error.strerror}") from error
    seen = seen_by(parse, text, f"logs/{stem}.{suffix}")
    return Proof(row=row.name, boot=boot, repeat=repeat, expected=expected, seen=seen, how=how)


def seen_by(parse: Callable[[str], dict[str, int]], text: str, what: str) -> dict[str, int]:
    """Return the packets in what a reader left; SkblabError if it is not as that one's is."""
    with understood(what, text):
        return {name: whole(count, MOST_COUNTED) for name, count in parse(text).items()}


def wall_pairs(output: str) -> list[WallPair]:
    """Return the throughput pairs that wall.sh printed."""
    pairs = []
    for line in output.splitlines():
        try:
            family, pair, first, off, on, packets = line.split()
            numbers = {"off_kpps": whole(off), "on_kpps": whole(on)}
            kpps = {name: whole(packets) / us * 1000 for name, us in numbers.items()}
            pairs.append(
                WallPair(
                    family=cast(Family, whole(family)),
                    pair=whole(pair),
                    first="off" if first == "off" else "on",
                    **kpps,
                )
            )
        except (ValueError, ZeroDivisionError) as error:
            raise SkblabError(
                f"the throughput test printed {one_line(line, 80)!r}: expected family, pair, "
                "first, microseconds off, on, and packets"
            ) from error
    return pairs
