# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe verify` in parts: every case at full scale, else those that no other test has.

A part is what `verify` itself runs at once, so that no back end loses its company.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conftest import Skblab
from skblab.probe.loads import Load
from skblab.probe.verify.plan import BACKENDS, Backend, cases, rounds

FULL, SMALL = "10007", "503"
# Of one protocol and family, forwarded: the others are in test_probe_layers.py.
ALONE = Load("sctp", 6, forward=True)

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(7200)]


def verified(
    run_skblab: Skblab, backends: Sequence[Backend], only: Sequence[str], *words: str
) -> str:
    """Return what it printed of these cases, after each back end counted all of each."""
    done = run_skblab(
        *("probe", "verify", *words),
        *(word for backend in backends for word in ("--backend", backend.name)),
        *(word for case in only for word in ("--only", case)),
        timeout=7000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all counted") == len(backends) * len(only)
    return done.stdout


def name(backends: Sequence[Backend]) -> str:
    """Return the first one's name."""
    return backends[0].name.replace(" ", "-")


@pytest.mark.parametrize("threaded", [False, True], ids=["softirq", "threads"])
@pytest.mark.parametrize("backends", rounds(BACKENDS), ids=name)
def test_every_packet_of_every_case_is_counted(
    run_skblab: Skblab, full: bool, backends: Sequence[Backend], threaded: bool
) -> None:
    chosen = [
        str(case) for case in cases() if case.threaded == threaded and (full or case.load == ALONE)
    ]
    packets = FULL if full else SMALL
    verified(run_skblab, backends, chosen, "--packets", packets, "--no-medians")


def test_medians_agree(run_skblab: Skblab, full: bool) -> None:
    few = ("histograms", "hooks by fentry")
    backends = [backend for backend in BACKENDS if full or backend.name in few]
    assert "Medians" in verified(run_skblab, backends, ["udp, softirq"], "--packets", SMALL)
