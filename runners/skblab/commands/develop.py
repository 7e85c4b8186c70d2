# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab lint` and `skblab format`: the native code's own checkers, run in the lab root."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from skblab.lab import labroot, paths, store, tools
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError

_CARGO_CHECKS = (
    ("cargo", "fmt", "--all", "--check"),
    ("cargo", "clippy", "--locked", "--all-targets", "--quiet", "--", "-D", "warnings"),
)
# What the C tests and the programs that they start are compiled with.
_SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"


def lint() -> None:
    """Run rustfmt, clippy and clang-format over the native code, changing nothing."""
    reporter = Reporter()
    root = labroot.ensure(reporter)
    failed = []
    with store.locked("develop", reporter):
        _forget_others(root)
        for check in (*_CARGO_CHECKS, ("clang-format", "--dry-run", "--Werror", *_c_files())):
            try:
                _run(root, check, writable=False)
            except SkblabError as error:
                failed.append(str(error))
    if failed:
        raise SkblabError("; ".join(failed))


def format_() -> None:
    """Rewrite the Rust and C sources as their formatters want them."""
    root = labroot.ensure(Reporter())
    _run(root, ("cargo", "fmt", "--all"), writable=True)
    _run(root, ("clang-format", "-i", *_c_files()), writable=True)


def native_tests() -> None:
    """Run the unit and property tests of the native code (cargo test, the probes' own)."""
    reporter = Reporter()
    root = labroot.ensure(reporter)
    made = ("OUT=/skblab/out/bpf", f"CFLAGS={_SANITIZED}")
    with store.locked("develop", reporter):
        _forget_others(root)
        _run(root, ("cargo", "test", "--locked", "--quiet"), writable=False)
        _run(root, ("make", "-j2", "-C", "probes/bpf", "test", *made), writable=False)
        ours = ("OUT=/skblab/out/init", made[1])
        _run(root, ("make", "-C", "runners/init", "test", *ours), writable=False)


def _forget_others(root: LabRoot) -> None:
    """Remove what was compiled of other sources: cargo and make look at times, not at contents.

    Every tree is at the same place in the lab root, and an older one would pass by another's code.
    """
    out = paths.cache() / "develop" / "out"
    out.mkdir(parents=True, exist_ok=True)
    sources = out / "sources"
    key = store.digest((root.key, _SANITIZED, *tools.contents((*tools.RUST, *tools.BPF))))
    if sources.exists() and sources.read_text() == key:
        return
    sources.unlink(missing_ok=True)
    packages = [word for name in tools.RUST_PROGRAMS for word in ("-p", name)]
    _run(root, ("cargo", "clean", "--locked", "--quiet", *packages), writable=False)
    shutil.rmtree(out / "bpf", ignore_errors=True)
    disk.write_whole(sources, key)


def _c_files() -> list[str]:
    top = paths.tree()
    folders = (top / "probes", top / "runners" / "init", top / "analysis" / "pktstat")
    files = (path for folder in folders for path in sorted(folder.rglob("*.[ch]")))
    return [str(path.relative_to(top)) for path in files]


def _run(root: LabRoot, argv: Sequence[str], *, writable: bool) -> None:
    cache = paths.cache()
    folders = {name: cache / "develop" / name for name in ("cargo", "out")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    name = f"{argv[0]} {argv[1]}"
    root.run(
        argv,
        binds=[
            Bind(paths.tree(), "tree", writable=writable),
            *(Bind(folder, point, writable=True) for point, folder in folders.items()),
        ],
        workdir="/skblab/tree",
        env={
            "CARGO_HOME": "/skblab/cargo",
            "CARGO_TARGET_DIR": "/skblab/out/target",
            "CARGO_TERM_COLOR": "never",
        },
        network=True,
        log=cache / "logs" / f"{argv[0]}-{argv[1].lstrip('-')}.log",
        what=name,
    )
