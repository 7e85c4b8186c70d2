# SPDX-License-Identifier: GPL-2.0-or-later
"""Native tools for a kernel: which are checked against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skblab.lab import tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter


class Asked(LabRoot):
    """A lab root that notes what it is to run."""

    ran: list[str]

    def run(self, argv: Sequence[str], **more: object) -> str:
        """Note it."""
        self.ran.append(" ".join(argv))
        return ""


@pytest.mark.parametrize(
    ("config", "packages", "checked"),
    [
        ("CONFIG_NET=y\nCONFIG_DEBUG_INFO_BTF=y\n", {}, True),
        ("# CONFIG_DEBUG_INFO_BTF is not set\n", {}, False),
        ("CONFIG_DEBUG_INFO_BTF_MODULES=y\n", {}, False),
        ("CONFIG_DEBUG_INFO_BTF=y\n", {"linux-image": "a"}, False),
    ],
)
def test_the_probe_is_checked_against_types_that_are_there(
    config: str,
    packages: dict[str, str],
    checked: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tools, "_gather", lambda folder, *_: (folder / "bin").mkdir())
    (tmp_path / "config").write_text(config)
    record = SimpleNamespace(packages=packages)
    built = SimpleNamespace(key="k", path=tmp_path, config=tmp_path / "config", record=record)
    root = Asked(tmp_path, "key")
    object.__setattr__(root, "ran", [])
    assert (tools.ensure(root, cast(Any, built), Reporter(quiet=True)) / "bin").is_dir()
    assert root.ran == ["/skblab/tools/pathlat --check --btf /skblab/kernel/vmlinux"] * checked
