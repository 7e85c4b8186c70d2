# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of the lab root with all that they load, to run on machines of any distribution."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

from skblab.lab import store
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError

# Starts the program by its own loader, so that nothing of the machine's libraries is used.
STARTER = """#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
here=$(dirname "$(readlink -f "$0")")
exec "$here/lib/{loader}" --library-path "$here/lib" --argv0 {name} "$here/lib/{name}" "$@"
"""
# What ldd says of a program without libraries.
STATIC = "statically linked"
LIBRARY = re.compile(r"(?:\S+ => )?(/\S+) \(0x")


def ensure(labroot: LabRoot, program: Path, reporter: Reporter) -> Path:
    """Return a folder with the program, started by the script of its name, and `bundle.tar`."""

    def build(folder: Path) -> None:
        name, lib = program.name, folder / "lib"
        lib.mkdir()
        listed = labroot.run(
            ["ldd", f"/skblab/tools/{name}"], binds=[Bind(program.parent, "tools")]
        )
        if STATIC in listed:
            shutil.copy2(program, folder / name)
            lib.rmdir()
            with tarfile.open(folder / "bundle.tar", "w") as bundle:
                bundle.add(folder / name, name)
            return
        libraries = LIBRARY.findall(listed)
        loaders = [
            Path(library).name for library in libraries if Path(library).name.startswith("ld-")
        ]
        if len(loaders) != 1:
            raise SkblabError(f"cannot tell what {name} loads; ldd said: {listed.strip()}")
        # There, not here: the links to the libraries are meant from the lab root's top.
        labroot.run(
            ["cp", "--dereference", "--target-directory=/skblab/out", *libraries],
            binds=[Bind(lib, "out", writable=True)],
        )
        shutil.copy2(program, lib / name)
        starter = folder / name
        starter.write_text(STARTER.format(loader=loaders[0], name=name))
        starter.chmod(0o755)
        with tarfile.open(folder / "bundle.tar", "w") as bundle:
            for part in (starter, lib):
                bundle.add(part, part.name)

    key = store.digest(["portable", STARTER, labroot.key, program.read_bytes()])
    return store.ensure("portable", key, reporter, build)
