# SPDX-License-Identifier: GPL-2.0-or-later
"""How often does a setting that changes nothing come out significant? See docs/explain/method.md.

    python -m skblab_analysis.false_alarms           # of figures that are drawn, with noise as ours
    python -m skblab_analysis.false_alarms RUN...    # of run folders: A/A, real ones

Of a run folder all settings are compared with each other whose names begin with `baseline`: each
has to be the baseline. Blocks are taken in groups of 2, 3 and 10, and all together. A setting is in
several comparisons: the interval of the share is a little too narrow.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Annotated, Generic, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from skblab_analysis.base.certainty import (
    CONFIDENCE,
    Difference,
    FalseAlarms,
    Sample,
    difference_of_shares,
    false_alarms,
)
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.histogram import bounds, index
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import share
from skblab_analysis.cost import bench
from skblab_analysis.exact import summary as exact
from skblab_analysis.formats import bench as documents
from skblab_analysis.latency import summary as latency
from skblab_analysis.layers import summary as layers
from skblab_analysis.load import Run, load
from skblab_analysis.throughput import summary as throughput

BLOCKS = (2, 3, 10)
# Of figures that are drawn: that many boots has a benchmark of the patches, too.
DRAWN = (2, 3, 5, 10)
COMPARISONS = 2000
FILE_WIDTH = 110
INSTRUCTIONS = 7600
WIDTH = 0.02
LATENCY_PACKETS = 50_000
# Instructions per packet of the trials of a boot, by part.
Boot = Mapping[documents.Part, Sequence[float]]
Figure = TypeVar("Figure")
Compare = Callable[[Mapping[int, Figure], Mapping[int, Figure]], Difference | None]


@dataclass(frozen=True)
class Kind(Generic[Figure]):
    """A kind of figure that is drawn; `noise` has the deviations of blocks and trials, in words.

    `block` draws what all figures of a block have in common, `figure` one of a block, and `compare`
    is what compares them in a report.
    """

    name: str
    noise: tuple[str, str]
    block: Callable[[random.Random], float]
    figure: Callable[[random.Random, float], Figure]
    compare: Compare[Figure]

    def alarms(self, blocks: int, comparisons: int, seed: int = 0) -> FalseAlarms:
        """Return how often two settings without a difference differ significantly."""
        rng = random.Random(f"{self.name} {blocks} {seed}")
        found = []
        for _ in range(comparisons):
            common = [self.block(rng) for _ in range(blocks)]
            one, other = (
                {block: self.figure(rng, value) for block, value in enumerate(common)}
                for _ in range(2)
            )
            compared = self.compare(one, other)
            assert compared is not None
            found.append(compared)
        return false_alarms(found)


def _factor(deviation: float) -> Callable[[random.Random], float]:
    return lambda rng: rng.lognormvariate(0, deviation)


def _instructions(deviation: float, waits: float, rng: random.Random, boot: float) -> float:
    # Some wait for the timer's tick: 4 million instructions, of 20 000 packets.
    return INSTRUCTIONS * boot * rng.gauss(1, deviation) + 200 * (rng.random() < waits)


def _boot(rng: random.Random, _: float) -> Boot:
    boot = rng.gauss(1, 0.002)
    parts: tuple[tuple[documents.Part, float], ...] = (("tester", 0.5), ("forward", 1.0))
    return {
        part: [part_of * _instructions(0.00015, 0.01, rng, boot) for _ in range(3)]
        for part, part_of in parts
    }


def _benchmark(baseline: Mapping[int, Boot], other: Mapping[int, Boot]) -> Difference | None:
    """Return what the benchmark of the patches says of two rows, the path of forwarding."""
    packets = 1000
    trials = tuple(
        documents.Trial(
            row=row,
            boot=boot,
            repeat=repeat,
            part=part,
            family=4,
            packets=packets,
            delivered=packets,
            instructions=round(figure * packets),
        )
        for row, boots in (("baseline", baseline), ("other", other))
        for boot, parts in boots.items()
        for part, figures in parts.items()
        for repeat, figure in enumerate(figures)
    )
    rows = tuple(
        documents.Row(name=row, title=row, group="patch", kernel="")
        for row in ("baseline", "other")
    )
    document = documents.BenchDocument(
        again="", baseline="baseline", packets=packets, repeats=3, rows=rows, trials=trials
    )
    return bench.forwarding(document, 4)[1].certainty


def _rate(rng: random.Random, block: float) -> float:
    steps = math.log(80_000 * block * rng.lognormvariate(0, 0.03)) // math.log1p(WIDTH)
    return math.exp(steps * math.log1p(WIDTH))


def _percentile(rng: random.Random, block: float) -> float:
    return mean(bounds(index(round(120_000 * block * rng.lognormvariate(0, 0.08)))))


def _layer(rng: random.Random, block: float) -> float:
    return 3000 * block * rng.gauss(1, 0.02)


def _late(mean_count: float, rng: random.Random, block: float) -> tuple[int, int]:
    """Return late packets, which are Poisson's with a mean that differs from trial to trial."""
    left, count = mean_count * block * rng.gammavariate(2, 0.5), -1
    while left > 0 or count < 0:
        left -= rng.expovariate(1)
        count += 1
    return count, LATENCY_PACKETS


KINDS: tuple[Kind[float] | Kind[tuple[int, int]] | Kind[Boot], ...] = (
    Kind(
        "instructions",
        ("0.01 %", "0.015 %"),
        _factor(0.0001),
        partial(_instructions, 0.00015, 0.0),
        partial(exact.compare, whole=INSTRUCTIONS),
    ),
    Kind(
        "instructions, noisy",
        ("0.01 %", "0.05 %"),
        _factor(0.0001),
        partial(_instructions, 0.0005, 0.01),
        partial(exact.compare, whole=INSTRUCTIONS),
    ),
    Kind("bench patch", ("0.2 %", "0.015 %"), lambda rng: 1.0, _boot, _benchmark),
    Kind(
        "rate",
        ("5 %", "3 %"),
        _factor(0.05),
        _rate,
        partial(throughput.compare, width=WIDTH),
    ),
    Kind("p99", ("10 %", "8 %"), _factor(0.1), _percentile, latency.compare),
    Kind("layer", ("5 %", "2 %"), _factor(0.05), _layer, layers.compare),
    Kind(
        "late packets, 20",
        ("20 %", "71 %"),
        _factor(0.2),
        partial(_late, 20),
        difference_of_shares,
    ),
    Kind(
        "late packets, 1",
        ("20 %", "71 %"),
        _factor(0.2),
        partial(_late, 1),
        difference_of_shares,
    ),
)


@dataclass(frozen=True)
class Measured(Generic[Figure]):
    """One figure of all settings of a run that are the baseline, by block."""

    name: str
    samples: Sequence[Mapping[int, Figure]]
    compare: Compare[Figure]

    def differences(self, blocks: int | None) -> Iterator[Difference]:
        """Yield each setting's difference from each, in groups of so many blocks; None: in all."""
        every = sorted({block for sample in self.samples for block in sample})
        size = blocks or len(every)
        for start in range(0, len(every) - size + 1, size):
            chosen = every[start : start + size]
            parts = [
                {block: sample[block] for block in chosen if block in sample}
                for sample in self.samples
            ]
            for first, second in combinations([part for part in parts if len(part) == size], 2):
                found = self.compare(first, second)
                if found is not None:
                    yield found


def measured(run: Run, names: str) -> Iterator[Measured[float] | Measured[tuple[int, int]]]:
    """Yield all figures of settings whose names begin with `names`."""
    for costs in exact.of(run):
        chosen = [cost for cost in costs.costs if cost.setting.startswith(names)]
        if chosen:
            compare = partial(exact.compare, whole=chosen[0].mean)
            yield Measured("instructions", [cost.by_boot for cost in chosen], compare)
    for rates in throughput.of(run):
        goal = rates.main
        samples = [rate.blocks for rate in goal.rates if rate.setting.startswith(names)]
        yield Measured("rate", samples, partial(throughput.compare, width=goal.width))
    for times in latency.of(run):
        delays = [delay for delay in times.delays if delay.setting.startswith(names)]
        yield Measured("p99", [delay.compared() for delay in delays], latency.compare)
        late = [delay.late_by_block() for delay in delays]
        yield Measured("late", late, difference_of_shares)
        lost = [delay.lost_by_block() for delay in delays]
        yield Measured("lost", lost, difference_of_shares)
    for path in layers.of(run):
        settings = [setting for setting in path.settings if setting.name.startswith(names)]
        means = [layers.means_by_block(setting.trials) for setting in settings]
        for layer in path.names:
            by_block: list[Sample] = [by_layer[layer] for by_layer in means if layer in by_layer]
            yield Measured("layer", by_block, layers.compare)


def simulated(comparisons: int = COMPARISONS) -> Table:
    """Return the false alarms of figures that are drawn."""
    table = titled(f"False alarms in {comparisons} comparisons each")
    table.add_column("figure", no_wrap=True)
    for name in ("of blocks", "of trials", *(f"{blocks} blocks" for blocks in DRAWN)):
        table.add_column(name, justify="right", no_wrap=True)
    for kind in KINDS:
        found = [kind.alarms(blocks, comparisons) for blocks in DRAWN]
        table.add_row(
            kind.name, *kind.noise, *(share(rate.alarms / comparisons, 1) for rate in found)
        )
    return table


def real(folders: Sequence[Path], names: str) -> Table:
    """Return the false alarms of run folders; SkblabError if nothing can be compared."""
    figures = [figure for folder in folders for figure in measured(load(folder), names)]
    table = titled("False alarms")
    table.add_column("figure", no_wrap=True)
    for name in ("blocks", "comparisons", "false alarms", "share", "95 %"):
        table.add_column(name, justify="right")
    for name in dict.fromkeys(figure.name for figure in figures):
        for blocks in (*BLOCKS, None):
            ours = [figure for figure in figures if figure.name == name]
            found = false_alarms(
                [change for figure in ours for change in figure.differences(blocks)]
            )
            if found.comparisons:
                low, high = interval(found)
                table.add_row(
                    *(name, str(blocks or "all"), str(found.comparisons), str(found.alarms)),
                    share(found.alarms / found.comparisons, 1),
                    f"{share(low, 1)} to {share(high, 1)}",
                )
    if not table.row_count:
        raise SkblabError(
            f"no two settings whose names begin with {names!r} have two blocks; expected an "
            "experiment with the baseline under other names"
        )
    return table


def interval(found: FalseAlarms) -> tuple[float, float]:
    """Return the ends of the share's interval (C. Clopper and E. Pearson, Biometrika 26, 1934)."""
    from scipy.special import betaincinv

    alarms, count, tail = found.alarms, found.comparisons, (1 - CONFIDENCE) / 2
    low = float(betaincinv(alarms, count - alarms + 1, tail)) if alarms else 0.0
    high = float(betaincinv(alarms + 1, count - alarms, 1 - tail)) if alarms < count else 1.0
    return low, high


def main(
    runs: Annotated[list[Path] | None, typer.Argument(help="run folders; none: drawn")] = None,
    names: Annotated[str, typer.Option(help="how the names of their settings begin")] = "baseline",
) -> None:
    """Print how often a setting that changes nothing comes out significant."""
    try:
        console = Console()
        if not console.is_terminal:
            # A file has room for every column's whole name.
            console.width = max(console.width, FILE_WIDTH)
        console.print(real(runs, names) if runs else simulated())
    except SkblabError as error:
        typer.echo(f"skblab: {error}", err=True)
        raise typer.Exit(2) from error


if __name__ == "__main__":
    typer.run(main)
