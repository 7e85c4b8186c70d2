# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad usage of commands that boot guests: one line, exit code 2, and nothing is made or booted."""

from __future__ import annotations

import pytest

from conftest import Skblab
from skblab.lab import kernel, labroot


@pytest.fixture(autouse=True)
def _nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("bad usage came as far as the lab root or a kernel")

    monkeypatch.setattr(labroot, "ensure", made)
    monkeypatch.setattr(kernel, "ensure", made)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("boot", "--flavour", "nonsense", "--", "true"), "unknown kernel flavour 'nonsense'"),
        (("boot", "--cpus", "0", "--", "true"), "--cpus"),
        (("boot", "--exact", "--cpus", "3", "--", "true"), "one or two CPUs"),
        (("sweep", "first", "--cpus", "2"), "--cpus 2 needs --exact"),
        (("sweep", "first", "--exact", "--cpus", "3"), "--cpus"),
        (("boot", "--memory", "many", "--", "true"), "--memory"),
        (("boot", "--share", "/nonexistent", "--", "true"), "/nonexistent"),
        (("boot", "--nonsense", "--", "true"), "--nonsense"),
        (("kselftest", "--flavour", "nonsense"), "unknown kernel flavour 'nonsense'"),
        (("soak", "--seconds", "1"), "--seconds"),
    ],
)
def test_it_is_one_line_and_exit_2(
    arguments: tuple[str, ...], words: str, skblab_here: Skblab
) -> None:
    done = skblab_here(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
