# SPDX-License-Identifier: GPL-2.0-or-later
"""When a booting guest's first CPU counts as halted, by the processor time of QEMU's threads."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import psutil
import pytest

from skblab.machine import halted
from skblab.machine.halted import FIRST, FirstCpu

SECOND = "CPU 1/TCG"
Times = Mapping[str, float]


def seen(*looks: tuple[float, Times]) -> list[bool]:
    """Return whether it counts as halted at each look: a second, and the threads' time by then."""
    now: list[tuple[float, Times]] = [(0.0, {})]
    cpu = FirstCpu(lambda: now[-1][1], lambda: now[-1][0])
    found = []
    for look in looks:
        now.append(look)
        said = cpu.look()
        assert said in (None, halted.SAID)
        found.append(said is not None)
    return found


def test_it_is_halted_where_only_others_run() -> None:
    looks = [(second, {FIRST: 2.0, SECOND: second / 100}) for second in (1.0, 15.0, 29.9, 31.0)]
    assert seen(*looks) == [False, False, False, True]
    # And stays so.
    assert seen(*looks, (31.1, {}), (99.0, {FIRST: 9.0, SECOND: 9.0})) == [False] * 3 + [True] * 3


def test_it_is_not_where_it_runs_a_little() -> None:
    looks = [
        (float(second), {FIRST: second // 29 / 100, SECOND: second / 10}) for second in range(99)
    ]
    assert not any(seen(*looks))


@pytest.mark.parametrize(
    "times",
    [
        {},
        {"ALL CPUs/TCG": 2.0},
        {"CPU 0/KVM": 2.0, "CPU 1/KVM": 3.0},
        {FIRST: 2.0},
        # QEMU itself gets nothing of the processors, or the second one is not up.
        {FIRST: 2.0, SECOND: 0.0},
    ],
)
def test_it_is_not_where_it_cannot_be_told(times: Times) -> None:
    looks = [(float(second), {**times, "qemu-system-x86": second}) for second in range(99)]
    assert not any(seen(*looks))


def test_it_is_not_where_qemu_has_ended() -> None:
    def ended() -> Times:
        raise psutil.NoSuchProcess(1)

    now = [0.0]
    cpu = FirstCpu(ended, lambda: now[0])
    now[0] = 99.0
    assert cpu.look() is None
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(psutil.NoSuchProcess):
        halted.processor_times(child.pid)
