# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages that only a few commands need: unpacked into the cache, not into the lab root."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.labroot.root import LabRoot
from skblab.lab.labroot.sandbox import Bind
from skblab.lab.reporter import Reporter

# Raise when the same packages are unpacked in another way.
RECIPE = "1"


def unpacked(
    kind: str, packages: Sequence[str], what: str, labroot: LabRoot, reporter: Reporter
) -> Path:
    """Return a folder of the cache with `packages` and what the lab root lacks of theirs.

    Its files are where they would be below `/`. `kind` is that of the cache's entry, `what` names
    the packages to the user. SkblabError if they cannot be fetched.
    """

    def fetch(folder: Path) -> None:
        reporter.say(f"fetching {what}")
        with reporter.step("packages"):
            labroot.run(
                ["sh", "-ec", fetch_script(packages)],
                binds=[Bind(folder, "out", writable=True)],
                network=True,
                log=paths.cache() / "logs" / f"{kind}.log",
                what="fetching Debian packages",
            )

    return store.ensure(kind, store.digest([RECIPE, labroot.key, *packages]), reporter, fetch)


def fetch_script(packages: Sequence[str]) -> str:
    """Return the script that fetches packages into /skblab/out; the root itself stays as it is."""
    return f"""
        mkdir -p /tmp/lists/partial /tmp/cache/archives/partial
        set -- -qq -o Dir::State::lists=/tmp/lists -o Dir::Cache=/tmp/cache -o Debug::NoLocking=1
        apt-get "$@" update
        apt-get "$@" --no-install-recommends --download-only --yes install {" ".join(packages)}
        for package in /tmp/cache/archives/*.deb; do dpkg-deb -x "$package" /skblab/out; done
    """
