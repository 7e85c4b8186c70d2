# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest of the patched stock kernel for all tests of this folder, file by file.

The tests here need a kernel and not a boot of their own. One worker runs them, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import TREE
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine.guest import Guest

SETTINGS = "sysctl -a --pattern '^net[.]core[.]' 2>/dev/null"


@pytest.fixture(scope="package")
def booted(lab: LabRoot, stock: Kernel, programs: Path) -> Iterator[Guest]:
    """The guest of this folder, with our tools and our tree."""
    shares = [Bind(programs, "tools"), Bind(TREE, "tree")]
    with Guest.boot(make_spec(), stock, lab, shares=shares) as guest:
        yield guest
        assert guest.console.warnings() == []


@pytest.fixture(scope="module")
def guest(booted: Guest) -> Iterator[Guest]:
    """The guest for the tests of a file, which may leave namespaces and settings behind."""
    transport = booted.transport
    before = transport.script(SETTINGS).check("reading settings").stdout.splitlines()
    yield booted
    after = transport.script(SETTINGS).check("reading settings").stdout.splitlines()
    changed = [line.partition(" = ") for line in before if line not in after]
    back = "\n".join(f"sysctl -q -w {name}='{value}'" for name, _, value in changed)
    transport.script(f"ip -all netns delete\n{back}").check("clearing up after a file of tests")
    assert transport.script("ip netns").check("looking").stdout == ""
