# SPDX-License-Identifier: GPL-2.0-or-later
"""What one of each thing costs: a document, which `measuring` writes and the model reads."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from skblab_analysis.base.checked import Finite, read

FILE = Path(__file__).with_name("costs.json")


class Made(Finite):
    """When, where and by which command it was measured."""

    command: str
    at: str = Field(description="UTC")
    processors: PositiveInt
    load: float = Field(ge=0, description="load average of a minute, as it began")
    disk: str = Field(description="file system that the store was on")
    slurm: str = Field(description="version")


class Costs(Finite):
    """Unit costs, in seconds and bytes.

    Work of one CPU is processor time, since others use the machine as well. Delays and rates of the
    store are by the clock.
    """

    schema_name: Literal["skblab.scale-costs/1"] = "skblab.scale-costs/1"
    made: Made
    # A node.
    begin: PositiveFloat = Field(description="an element: skblab starts and checks; CPU seconds")
    tasks: dict[str, PositiveFloat] = Field(min_length=1, description="a boot, CPU seconds")
    unpack_root: PositiveFloat = Field(description="CPU seconds")
    unpack_kernel: PositiveFloat = Field(description="CPU seconds")
    root_bytes: PositiveInt
    kernel_bytes: PositiveInt
    # The client.
    pack_kernel: PositiveFloat = Field(description="CPU seconds")
    list_name: PositiveFloat = Field(description="of listing names of the store, each; CPU seconds")
    get: PositiveFloat = Field(description="a record is read; CPU seconds")
    # The store.
    put: PositiveFloat = Field(description="a record is written, by one writer alone")
    put_share: PositiveFloat = Field(description="the same, where many write: time over number")
    record_bytes: PositiveInt
    # slurmctld: its own processor time, except for calls, which are by the clock.
    sbatch: PositiveFloat = Field(description="a call with an array of one element")
    sbatch_element: PositiveFloat = Field(description="each further element of the array")
    squeue: PositiveFloat = Field(description="a call, while nothing is outstanding")
    squeue_element: PositiveFloat = Field(description="each element that it lists")
    element: PositiveFloat = Field(description="an element is started and ended, CPU seconds")
    # Kernels.
    build_hit: PositiveFloat = Field(description="few C files changed; CPU seconds; estimated")
    build_miss: PositiveFloat = Field(description="nothing in the compiler's cache; CPU seconds")
    # The compactor.
    pack_row: PositiveFloat = Field(description="a row of Parquet, CPU seconds")
    row_bytes: PositiveFloat
    rows: PositiveFloat = Field(description="of a task")

    @property
    def task(self) -> float:
        """CPU seconds of a boot, the mean over the workloads."""
        return fmean(self.tasks.values())


def load(file: Path = FILE) -> Costs:
    """Return the costs of a file; RecordError or UsageError says what is wrong with it."""
    return read(Costs, file, "the unit costs")
