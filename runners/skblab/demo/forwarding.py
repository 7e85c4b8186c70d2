# SPDX-License-Identifier: GPL-2.0-or-later
"""The forwarding experiment in `exact` mode: instructions per packet by setting, over boots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from skblab.machine.guest import Guest
from skblab.testbeds import generator
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.base.whole import MOST_COUNTED, whole
from skblab_analysis.exact.rows import ExactTrial

FRAME_BYTES = 60
REPEATS = 2
SECONDS = 600
# pktgen reports elapsed microseconds; the guest's clock ticks once per instruction (1 ns).
INSTRUCTIONS_PER_US = 1000
# The calibration, as forwarding.sh names it.
TESTER = "tester"


@dataclass(frozen=True)
class Line:
    """One line of the script's output: a trial."""

    setting: str
    repeat: int
    packets: int
    elapsed_us: int
    delivered: int

    @classmethod
    def parse(cls, text: str) -> Line:
        """Parse `setting repeat packets elapsed_us delivered`; SkblabError if it is not such."""
        words = text.split()
        try:
            setting, *numbers = words
            repeat, packets, elapsed, delivered = (whole(n, MOST_COUNTED) for n in numbers)
        except ValueError:
            raise SkblabError(
                f"the forwarding experiment printed {one_line(text, 80)!r}: expected setting, "
                "repeat, packets, microseconds and packets delivered; its script and output are in "
                "logs/"
            ) from None
        return cls(setting, repeat, packets, elapsed, delivered)

    def trial(self, boot: int) -> ExactTrial:
        """Return the trial as the records keep it."""
        found = {
            "setting": self.setting,
            "part": "tester" if self.setting == TESTER else "whole",
            "block": boot,
            "repeat": self.repeat,
            "packets": self.packets,
            "delivered": self.delivered,
            "instructions": self.elapsed_us * INSTRUCTIONS_PER_US,
        }
        return parse(ExactTrial, found, "a trial of the forwarding experiment")


def script(packets: int, repeats: int = REPEATS, frame: int = FRAME_BYTES) -> str:
    """Return the script, with its parameters at the top."""
    body = resources.files(__package__).joinpath("forwarding.sh").read_text()
    settings = f"packets={packets}\nrepeats={repeats}\nframe={frame}\n"
    return f"#!/bin/sh\n{settings}{generator.functions()}{body}"


def measure(guests: Sequence[Guest], packets: int, logs: Path) -> list[ExactTrial]:
    """Run the experiment in every guest at once; guest n's trials are boot n's.

    The instruction count does not depend on how fast the host is, so the guests may share it.
    """
    text = script(packets)
    (logs / "forwarding.sh").write_text(text)
    running = [guest.transport.start(["sh", "-euc", text]) for guest in guests]
    trials: list[ExactTrial] = []
    for boot, one in enumerate(running):
        done = one.wait(SECONDS)
        (logs / f"forwarding-{boot}.txt").write_text(done.stdout + done.stderr)
        done.check(f"the forwarding experiment of boot {boot}")
        trials += [Line.parse(line).trial(boot) for line in done.stdout.splitlines()]
    return trials
