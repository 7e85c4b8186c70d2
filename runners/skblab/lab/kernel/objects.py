# SPDX-License-Identifier: GPL-2.0-or-later
"""Which objects show whether a patch is clean: those of its C files, and some for its headers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

# Folders whose C files the kernel's own build does not compile.
_NOT_KERNEL = ("tools/", "samples/", "scripts/", "Documentation/", "usr/")


@dataclass(frozen=True)
class Choice:
    """Objects to compile for a patch, and files of the kernel that none of them shows."""

    objects: tuple[str, ...]
    unseen: tuple[str, ...]


def touched(patch: str) -> tuple[str, ...]:
    """Return the files that a patch leaves changed or new, in its order."""
    found = re.findall(r"^\+\+\+ b/(\S+)", patch, re.M)
    return tuple(dict.fromkeys(found))


def sources(files: Collection[str]) -> list[str]:
    """Return those of `files` that are C of the kernel itself."""
    return [
        file for file in files if file.endswith((".c", ".h")) and not file.startswith(_NOT_KERNEL)
    ]


def choose(files: Collection[str], users: Mapping[str, Collection[str]]) -> Choice:
    """Return what to compile to see `files`; `users` are the objects that each file is in.

    A C file is seen by its own object; a header by one of these, else by one that has it, of
    the network if there is one.
    """
    chosen: dict[str, None] = {}
    wanted = sources(files)
    for name in wanted:
        own = f"{name.removesuffix('.c')}.o"
        if name.endswith(".c") and own in users.get(name, ()):
            chosen[own] = None
    unseen = []
    for name in wanted:
        having = users.get(name, ())
        if chosen.keys() & set(having):
            continue
        if not having:
            unseen.append(name)
            continue
        chosen[min(having, key=lambda folder: (not folder.startswith("net/"), folder))] = None
    return Choice(tuple(sorted(chosen)), tuple(unseen))


def users(output: Path, files: Collection[str]) -> dict[str, list[str]]:
    """Return the objects of a finished build in `output` that each of `files` is part of."""
    found: dict[str, list[str]] = {name: [] for name in files}
    if not files:
        return found
    names = re.compile("|".join(re.escape(f"/src/{name}") + r"(?=[\s)\\])" for name in files))
    for command in output.rglob(".*.o.cmd"):
        folder = command.parent.relative_to(output).as_posix()
        obj = f"{folder}/{command.name[1:-4]}"
        if obj.startswith(_NOT_KERNEL) or not (output / obj).is_file():
            continue
        for hit in set(names.findall(command.read_text(errors="replace"))):
            found[hit.removeprefix("/src/")].append(obj)
    return found
