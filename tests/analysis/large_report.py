# SPDX-License-Identifier: GPL-2.0-or-later
"""How long the report of a large run takes: `make bench-report`.

    python tests/analysis/large_report.py [--settings N] [--blocks N] [--keep FOLDER]

It makes up a sweep of N settings in N blocks, each with a search, and at three rates latency,
layers and CPU time: ten trials for each setting and block, with counters and knobs as a real run
has them. Then it prints what reading it takes, the page without pictures, the summary for --json,
and `skblab report` as a whole, with pictures if there is a gnuplot. Seconds are the processor's,
its children's among them, and in brackets those of a clock.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import searches
import synthetic_run
import test_cpu
import test_latency
import test_layering

from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.formats.run import Plan
from skblab_analysis.latency.rows import Arrivals
from skblab_analysis.layers.rows import Probed
from skblab_analysis.load import load
from skblab_analysis.report import page, summary
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.settings.rows import ReadBack
from skblab_analysis.work.rows import Counter

TREE = Path(__file__).resolve().parents[2]
RATES = (1_000, 10_000, 100_000)
PACKETS = 5_000
LOADS = 20
COUNTERS = [
    Counter(kind="softirq", name=name, cpu=cpu, value=9_000 + cpu)
    for name in ("NET_RX", "NET_TX", "TIMER")
    for cpu in range(8)
]


def names(count: int) -> list[str]:
    """Return names of settings, the baseline first."""
    return ["baseline", "baseline again", *(f"rss={place} queues" for place in range(count - 2))]


def trials(count: int) -> int:
    """Return how many trials so many settings, each in a block, have."""
    return count * (1 + 3 * len(RATES))


class Sweep:
    """A made-up sweep, trial by trial; what all blocks have alike is made once."""

    def __init__(self, results: Path, settings: int) -> None:
        self.settings = names(settings)
        plan = Plan(
            experiment="large",
            question="How long does a page take?",
            seed=1,
            baseline="baseline",
            settings=tuple(self.settings),
            parameters={"clock": "wall", "testbed": "netns"},
        )
        self.folder = RunFolder.create(results, "large", plan, synthetic=True)
        self._rng = random.Random(1)
        self._arrivals: dict[tuple[str, int], ArrivalsDocument] = {}
        self._layers: dict[str, dict[str, Any]] = {}

    def record(self, block: int) -> None:
        """Record all trials of a block."""
        for setting in self.settings:
            made = searches.search(setting, block, 80_000.0 * self._rng.uniform(0.9, 1.1))
            made = made.model_copy(update={"loads": (made.loads * LOADS)[:LOADS]})
            self._known(setting)
            self.folder.record(made)
            for rate in RATES:
                self._at_rate(setting, block, rate)

    def _at_rate(self, setting: str, block: int, rate: int) -> None:
        self._known(setting)
        self.folder.record(
            Arrivals(
                setting=setting,
                part="whole",
                block=block,
                traffic=searches.TRAFFIC,
                rate=rate,
                tried=PACKETS,
                seconds=PACKETS / rate,
                took=PACKETS / rate,
                document=self._arrived(setting, rate),
            )
        )
        self._known(setting)
        self.folder.record_probe(
            self._probed(setting),
            0.1,
            of=Probed(
                setting=setting,
                block=block,
                traffic=searches.TRAFFIC,
                rate=rate,
                tried=test_layering.COUNT,
                forwarded=test_layering.COUNT,
                offered_rate=rate,
            ),
        )
        self._known(setting)
        busy = test_cpu.worked(setting, block, self._rng.randrange(200, 400))
        self.folder.record(
            busy.model_copy(
                update={"traffic": searches.TRAFFIC, "rate": rate, "offered_rate": float(rate)}
            )
        )

    def _known(self, setting: str) -> None:
        self.folder.known(COUNTERS)
        self.folder.known(self._knobs(setting))

    def _knobs(self, setting: str) -> Iterator[ReadBack]:
        for knob in ("rss", "irq_affinity", "threaded", "netdev_budget"):
            yield ReadBack(knob=knob, value=setting, before="x", wanted=setting, after=setting)

    def _arrived(self, setting: str, rate: int) -> ArrivalsDocument:
        if (setting, rate) not in self._arrivals:
            base = 20_000 * self._rng.uniform(0.5, 2)
            values = [round(base * self._rng.lognormvariate(0, 0.3)) for _ in range(PACKETS)]
            self._arrivals[setting, rate] = test_latency.document(sorted(values))
        return self._arrivals[setting, rate]

    def _probed(self, setting: str) -> dict[str, Any]:
        if setting not in self._layers:
            points = range(len(test_layering.POINTS) - 1)
            layers = [1_000 + self._rng.randrange(2_000) for _ in points]
            self._layers[setting] = test_layering.document(layers)
        return self._layers[setting]


def spent(body: Callable[[], object]) -> str:
    """Return the seconds that it takes, of processors and of a clock."""

    def processors() -> float:
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))

    before, begun = processors(), time.monotonic()
    body()
    return f"{processors() - before:6.1f} s ({time.monotonic() - begun:.1f} s)"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def measure(path: Path) -> None:
    """Print what the parts of a report take, and all of it."""
    say(f"reading the run:        {spent(lambda: load(path))}")
    run = load(path)
    say(f"page without pictures:  {spent(lambda: page.write(run, None))}")
    say(f"summary for --json:     {spent(lambda: summary.of(run))}")
    call = [str(TREE / "skblab"), "report", str(path)]
    say(f"skblab report:          {spent(lambda: subprocess.run(call, check=True))}")
    drawn = sum(1 for _ in (path / "report").glob("*.png"))
    say(f"trials: {run.document.trials}, pictures: {drawn}")


def main() -> None:
    """Make a run up, and print what its report takes."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--settings", type=int, default=20, metavar="N")
    asked.add_argument("--blocks", type=int, default=5, metavar="N")
    asked.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the run there")
    options = asked.parse_args()
    if options.settings < 2 or options.blocks < 1:
        asked.error("expected at least two settings and a block")
    with tempfile.TemporaryDirectory() as made:
        results = options.keep or Path(made)
        results.mkdir(parents=True, exist_ok=True)
        sweep = Sweep(results, options.settings)
        say(f"making {options.blocks * trials(options.settings)} trials up")
        for block in range(options.blocks):
            sweep.record(block)
        measure(sweep.folder.finish(synthetic_run.environment(), {}))


if __name__ == "__main__":
    main()
