# SPDX-License-Identifier: GPL-2.0-or-later
"""pyarrow, loaded when it is first used.

It takes a quarter of a second with numpy, and most commands write and read no table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    class _Later:
        """A module by its name; any attribute of it loads it."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> object:
            return getattr(import_module(self._name), attribute)

    pa = _Later("pyarrow")
    pc = _Later("pyarrow.compute")
    pq = _Later("pyarrow.parquet")

__all__ = ["pa", "pc", "pq"]
