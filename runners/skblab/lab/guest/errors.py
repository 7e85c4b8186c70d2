# SPDX-License-Identifier: GPL-2.0-or-later
"""How a guest that is lost is told of."""

from __future__ import annotations

from collections.abc import Sequence

from skblab.lab.guest.console import Finding
from skblab_analysis.base.errors import EXIT_GUEST, SkblabError


class GuestError(SkblabError):
    """A guest panicked, hung, or was killed. `log` in the message says where to read on.

    `findings` are what its kernel complained of (see guest.console). `told`: a guest has said in it
    what it knows of its end.
    """

    exit_code = EXIT_GUEST
    findings: Sequence[Finding] = ()
    told: bool = False
