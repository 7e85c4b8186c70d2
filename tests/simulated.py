# SPDX-License-Identifier: GPL-2.0-or-later
"""A generator, a device and a sink made up, of known rates: what searches are checked against.

Counts are drawn, packets are not: a trial costs the same however many packets it has.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from skblab.sweep.measure.throughput.goals import Goal, SearchRequest
from skblab.sweep.measure.throughput.trial import Trial


@dataclass(frozen=True)
class Device:
    """What a device does with packets; rates in packets per second.

    It forwards `capacity`, which differs from trial to trial by `noise` of it (one standard
    deviation), and keeps `queue` packets for later. It loses each packet with probability
    `random_loss`. It stalls `stalls` times a second on average, for `stall_seconds`, and then loses
    what the queue does not hold.
    """

    capacity: float
    noise: float = 0.0
    queue: int = 0
    random_loss: float = 0.0
    stalls: float = 0.0
    stall_seconds: float = 0.0


@dataclass
class Testbed:
    """A Measurer: generator and sink with ceilings, in packets per second, and a device or none."""

    __test__ = False

    device: Device | None
    seed: int = 0
    generator: float = math.inf
    sink: float = math.inf
    # Whether the device counts, too.
    counting: bool = True
    # Trials after which the testbed breaks.
    breaks_after: int | None = None
    measured: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def measure(self, load: float, seconds: float) -> Trial:
        """Run a trial."""
        if self.measured == self.breaks_after:
            raise RuntimeError("the testbed broke")
        self.measured += 1
        sent = min(round(load * seconds), _floor(self.generator * seconds))
        forwarded = sent if self.device is None else self._forwarded(self.device, sent, seconds)
        received = min(forwarded, _floor(self.sink * seconds))
        counted = forwarded if self.device is not None and self.counting else None
        return Trial(load, seconds, sent, counted, received)

    def _forwarded(self, device: Device, sent: int, seconds: float) -> int:
        capacity = device.capacity * max(0.0, 1 + self.rng.gauss(0, device.noise))
        left = min(sent, math.floor(capacity * seconds) + device.queue)
        in_a_stall = math.ceil(sent / seconds * device.stall_seconds)
        stalls = _poisson(self.rng, device.stalls * seconds)
        left -= stalls * max(0, in_a_stall - device.queue)
        return max(0, left - _poisson(self.rng, device.random_loss * sent))


def truth(device: Device, goal: Goal, request: SearchRequest) -> float:
    """Return the greatest load that is good by this goal, had one all the time in the world.

    Stalls are taken as frequent enough to come in one of all trials at a load, and rare enough not
    to come in half of them; random losses as many in a trial.
    """
    extra = device.queue / request.seconds
    if goal.exceed_ratio == 0 and device.stalls:
        return min(device.capacity + extra, device.queue / device.stall_seconds)
    return (device.capacity + extra) * (1 - device.random_loss) / (1 - goal.loss_ratio)


def _floor(packets: float) -> int:
    return math.floor(packets) if packets < 1e18 else 10**18


def _poisson(rng: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    count, left = -1, 1.0
    floor = math.exp(-mean)
    while True:
        count += 1
        left *= rng.random()
        if left <= floor:
            return count
