# SPDX-License-Identifier: GPL-2.0-or-later
"""`timestamps-*.data` of the real-time study (Dybvik 2023), as its own TRex writes it.

No header. For each packet that came two little-endian doubles: when it was sent, and when it came,
in seconds of the one clock of that tester.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skblab_analysis.base.errors import SkblabError, os_trouble
from skblab_analysis.formats.traces.chunk import MOST, Chunk, Origin
from skblab_analysis.formats.traces.times import Nanoseconds

BYTES = 16
Seconds = npt.NDArray[np.float64]
_NS = 1e9
# Nanoseconds that a double holds as whole numbers, and those that an integer holds.
_EXACT = 2.0**53
_MOST_SECONDS = 2.0**62 / _NS


class TimestampsSource:
    """Such a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.origin = Origin(
            format="timestamps",
            stamps="tester",
            receiver_clock=None,
            one_clock=True,
            unknown={
                "sequence": "the file has none; in records it is the place in the file",
                "flow": "the file has none",
                "payload": "the file has no sizes",
                "lost": "a packet that did not come is not in the file",
                "stamps.clock": "a clock of the generator, in seconds",
            },
        )

    def parts(self) -> Iterator[Chunk | str]:
        """Yield the packets of the file."""
        wrong, first_wrong, at, rest = 0, 0, 0, 0
        try:
            with self._path.open("rb", buffering=0) as file:
                while data := file.read(MOST * BYTES):
                    # A pipe gives what it has.
                    while len(data) % BYTES and (more := file.read(BYTES - len(data) % BYTES)):
                        data += more
                    rest = len(data) % BYTES
                    pairs = np.frombuffer(data, "<f8", len(data) // BYTES * 2).reshape(-1, 2)
                    good = sound(pairs)
                    if not good.all():
                        first_wrong = first_wrong if wrong else at + int(np.argmin(good))
                        wrong += len(good) - int(np.count_nonzero(good))
                        pairs = pairs[good]
                    at += len(good)
                    if len(pairs):
                        yield Chunk(_nanoseconds(pairs[:, 1]), _nanoseconds(pairs[:, 0]))
        except OSError as error:
            raise SkblabError(f"cannot read timestamps: {os_trouble(error)}") from error
        if wrong:
            yield (
                f"{wrong} packets have no times, the first of them number {first_wrong}, at byte "
                f"{first_wrong * BYTES}: left out; expected seconds from 0 on, as doubles"
            )
        if rest:
            yield f"the file ends within a packet: its last {rest} bytes are left out"


def sound(pairs: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return of each packet whether both of its times may be such; NaN is none."""
    if len(pairs) and pairs.min() >= 0 and pairs.max() < _MOST_SECONDS:
        return np.ones(len(pairs), np.bool_)
    inside = (pairs >= 0) & (pairs < _MOST_SECONDS)
    return inside[:, 0] & inside[:, 1]


def _nanoseconds(seconds: Seconds) -> Nanoseconds:
    """Return whole nanoseconds: doubles where these are exact, else integers."""
    found = seconds * _NS
    np.rint(found, out=found)
    return found if found.max() < _EXACT else found.astype(np.int64)
