# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest that a command asks for, with KVM where that works."""

from __future__ import annotations

from pydantic import ValidationError

from skblab.lab import kvm
from skblab.lab.guest import GuestSpec
from skblab.lab.kernel.model import CHECKING
from skblab_analysis.base.errors import UsageError


def make_spec(
    *,
    cpus: int | None = None,
    memory: int = 2048,
    exact: bool = False,
    numa: int = 1,
    tcg: bool = False,
    arguments: list[str] | None = None,
    flavour: str = "stock",
    one_thread: bool = False,
    silent: bool = False,
) -> GuestSpec:
    """Return the guest's spec, with KVM where it works. Raises UsageError for a bad one.

    Without `cpus` it has two, and one if it counts instructions (`exact`).

    `flavour` is that of the kernel to boot; `one_thread` and `silent` are GuestSpec's.
    """
    use_kvm = not tcg and not exact and kvm.verdict().works
    try:
        return GuestSpec(
            cpus=cpus if cpus is not None else (1 if exact else 2),
            memory=memory,
            exact=exact,
            numa=numa,
            accel="kvm" if use_kvm else "tcg",
            arguments=tuple(arguments or ()),
            patient=flavour in CHECKING,
            one_thread=one_thread,
            silent=silent,
        )
    except ValidationError as error:
        raise UsageError(spec_complaint(error)) from error


def spec_complaint(error: ValidationError) -> str:
    """Return a validation error as one line that names the option."""
    first = error.errors()[0]
    text = str(first["msg"]).removeprefix("Value error, ")
    where = "".join(f"--{part}: " for part in first["loc"])
    return f"{where}{text}"
