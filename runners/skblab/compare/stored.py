# SPDX-License-Identifier: GPL-2.0-or-later
"""Stored runs as sides of a comparison: what they have, and whether it can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from skblab.bench.comparison import SHARED
from skblab.compare.asked import Asked
from skblab.compare.sides import Stored
from skblab.compare.workload import Workload
from skblab.knobs.values import text as shown
from skblab.lab.kernel import config
from skblab.lab.kernel.names import DEB, DEBIAN
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats import compare as records
from skblab_analysis.formats.compare import FIRST, Measured
from skblab_analysis.runfolder import RunFolder


def config_file(key: str) -> str:
    """Return the name that a run keeps a kernel's configuration under."""
    return f"config-{key}"


def _config(stored: Stored) -> Path:
    key = stored.document.sides[stored.side].kernel.key
    return stored.folder / config_file(key)


def configuration(stored: Stored) -> dict[str, str]:
    """Return the options of a stored side's kernel; none if the run has lost them."""
    file = _config(stored)
    return config.parse(file.read_text()) if file.is_file() else {}


def notes(stored: Stored) -> list[str]:
    """Return what a stored run says of its side's kernel."""
    begin = SHARED.partition("{}")[0] + stored.document.sides[stored.side].kernel.release
    return [one for one in stored.document.notes if one.startswith(f"{begin} ")]


def keep_configuration(stored: Stored, side: records.Side, folder: RunFolder) -> None:
    """Have another run keep the configuration, too: it may be a stored one some day."""
    file = _config(stored)
    if file.is_file():
        write_whole(folder.path / config_file(side.kernel.key), file.read_bytes())


def taken(stored: Stored, number: int, sides: int, workloads: Sequence[Workload]) -> list[Measured]:
    """Return what a stored run has of its side, as side `number` of `sides` here.

    A has two boots, a first and a last one; where the run has no second one, that is said.
    """
    boots = [FIRST, sides] if number == FIRST else [number]
    found: list[Measured] = []
    for workload in workloads:
        own = sorted(
            (
                one
                for one in stored.document.measured
                if one.side == stored.side and one.workload == workload.name
            ),
            key=lambda one: one.boot,
        )
        # Of many boots, those that are furthest apart in time.
        kept = [*own[:1], *own[1:][-1:]]
        for place, boot in enumerate(boots):
            known = {"workload": workload.name, "side": number, "boot": boot}
            if place < len(kept):
                found.append(kept[place].model_copy(update={"side": number, "boot": boot}))
            else:
                why = f"{stored.folder} has {'no second boot' if own else 'nothing'} of it"
                found.append(Measured(**known, why=why, cause="other"))
    return found


def require_comparable(
    word: str, stored: Stored, instrument: Mapping[str, str], asked: Asked
) -> None:
    """Raise UsageError for a stored run that another instrument, load or setting made."""
    document, side = stored.document, stored.document.sides[stored.side]
    differ = [
        f"{name}: {there} there, {here} here"
        for name in sorted({**document.instrument, **instrument})
        if (there := document.instrument.get(name)) != (here := instrument.get(name))
    ]
    if document.packets != asked.packets:
        differ.append(f"packets: {document.packets} there, {asked.packets} here")
    known = {one.name: one.sha256 for one in document.workloads}
    differ += (
        f"workload {one.name}: its file or its scripts have changed since"
        for one in asked.workloads
        if one.name in known and known[one.name] != one.sha256
    )
    if side.flavour != asked.flavour:
        differ.append(f"flavour: {side.flavour} there, {asked.flavour} here")
    differ += (
        f"{knob}: {side.settings.get(knob, 'as the kernel has it')} there, {shown(value)} here"
        for knob, value in asked.common.items()
        if side.settings.get(knob) != shown(value)
    )
    boots = {one.boot for one in document.measured if one.side == stored.side}
    if asked.sides[FIRST].stored is stored and len(boots) < 2:
        raise UsageError(
            f"{word}: that side was booted once, and A needs two boots; name it behind A, or "
            f"measure it alone: ./skblab compare {side.name}"
        )
    if differ:
        raise UsageError(
            f"{word}: its figures cannot be compared: {'; '.join(differ[:3])}; measure it again: "
            f"./skblab compare {side.name}"
        )


def require_one_compiler(sides: Mapping[int, records.Side]) -> None:
    """Raise UsageError if kernels that are built from source are of different compilers.

    A package comes as somebody has built it: that is what was named.
    """
    built = [one for one in sides.values() if not one.kernel.name.startswith((DEBIAN, DEB))]
    for one in built:
        if one.toolchain != built[0].toolchain:
            tools = sorted({**one.toolchain, **built[0].toolchain})
            differ = [
                f"{tool} {built[0].toolchain.get(tool)} and {one.toolchain.get(tool)}"
                for tool in tools
                if one.toolchain.get(tool) != built[0].toolchain.get(tool)
            ]
            raise UsageError(
                f"compare: {built[0].name} and {one.name} were built by different tools "
                f"({', '.join(differ[:3])}); measure both here"
            )
