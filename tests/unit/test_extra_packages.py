# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages beside the lab root."""

from __future__ import annotations

from skblab.lab.labroot import extra


def test_packages_are_fetched_without_touching_the_root() -> None:
    script = extra.fetch_script(["ping", "jq"])
    assert "install ping jq" in script
    assert "Dir::Cache=/tmp/cache" in script
