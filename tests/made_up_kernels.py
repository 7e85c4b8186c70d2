# SPDX-License-Identifier: GPL-2.0-or-later
"""What documents say of kernels and of a machine that are not there."""

from __future__ import annotations

from skblab.lab.kernel import Kernel
from skblab_analysis.formats.functions import Identity
from skblab_analysis.formats.run import Environment, Host
from skblab_analysis.formats.run import Kernel as RunKernel

ENVIRONMENT = Environment(
    kernel=RunKernel(release="6.12", flavour="stock", config_hash="c", patches=()),
    guests={},
    host=Host(system="Linux", cpu="a CPU", cpus=2, memory_mib=1000),
)


def identity(named: object, built: Kernel) -> Identity:
    """Stand for skblab.bench.kernels.identity."""
    return Identity(
        name=str(named),
        release="r",
        key=built.key,
        source="6.12.1",
        source_digest="d",
        config_sha256="c",
        patches=(),
    )
