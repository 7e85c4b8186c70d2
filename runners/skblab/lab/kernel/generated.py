# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that the kernel generates from netlink specifications: it must be what they generate."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from skblab.lab.labroot import Bind, LabRoot

SPECS = "Documentation/netlink/specs/"
# Where generated code is; the kernel's own ynl-regen.sh asks git.
_FOLDERS = ("net", "drivers/net", "fs/nfsd", "include/uapi/linux", "tools/include/uapi/linux")
_FROM = re.compile(r"^/\*\s+(Documentation/netlink/specs/\S+) \*/$", re.M)
_MADE = re.compile(r"^/\* YNL-GEN (kernel|uapi) (source|header) \*/$", re.M)
_ARGUMENTS = re.compile(r"^/\* YNL-ARG (.*) \*/$", re.M)

# The generator imports a package for checking the specification's form, which the lab root lacks.
_GENERATE = """
mkdir /tmp/stub
echo 'def validate(*_): pass' >/tmp/stub/jsonschema.py
name=$1
shift
generator=tools/net/ynl/pyynl/ynl_gen_c.py
# Where it is on 6.12.
[ -e "$generator" ] || generator=tools/net/ynl/ynl-gen-c.py
PYTHONPATH=/tmp/stub python3 -B "$generator" -o "/tmp/$name" "$@"
cat "/tmp/$name"
"""


def find(tree: Path, files: Collection[str]) -> list[str]:
    """Return the generated files that a patch which touches `files` has to do with."""
    specs = [name for name in files if name.startswith(SPECS)]
    found = []
    if specs:
        for folder in _FOLDERS:
            for file in (tree / folder).rglob("*.[ch]"):
                found.append(file.relative_to(tree).as_posix())
    return sorted(
        name
        for name in {*found, *files}
        if name.endswith((".c", ".h"))
        and (spec := made_from(tree / name))
        and (spec in specs or name in files)
    )


def made_from(file: Path) -> str | None:
    """Return the specification that `file` says it is generated from, if it does."""
    try:
        with file.open(errors="replace") as handle:
            head = handle.read(2000)
    except OSError:
        return None
    spec = _FROM.search(head)
    return spec[1] if spec and _MADE.search(head) else None


def stale(tree: Path, files: Collection[str], labroot: LabRoot) -> list[str]:
    """Return a sentence for each of `files` that is not what its specification generates."""
    told = []
    for name in files:
        text = (tree / name).read_text()
        spec, made = made_from(tree / name), _MADE.search(text)
        assert spec and made
        arguments = _ARGUMENTS.search(text)
        words = ["--mode", made[1], f"--{made[2]}", "--spec", spec]
        words += arguments[1].split() if arguments else []
        output = labroot.run(
            ["sh", "-ec", _GENERATE, "generate", Path(name).name, *words],
            binds=[Bind(tree, "src")],
            workdir="/skblab/src",
            what=f"generating {name}",
        )
        if output != text:
            told.append(f"{name}: is not what {spec} generates (tools/net/ynl/ynl-regen.sh)")
    return told
