# SPDX-License-Identifier: GPL-2.0-or-later
"""Other architectures than x86_64, for which `patches-check` compiles what a patch touches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skblab.lab.kernel import build, config, findings
from skblab.lab.kernel.findings import Findings
from skblab.lab.labroot import Bind, LabRoot, extra
from skblab.lab.labroot.sandbox import BASE_ENV
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError

KIND = "cross-compilers"
FRAGMENT, DRIVERS = "architectures", "drivers"
UNCOMPILED = "does not compile for"
# What gcc calls for 64-bit division on 32 bits. The kernel has none of them: it does not link.
_DIVISION = re.compile(r"^/skblab/build/(\S+?\.o):\s+U (__u?(?:div|mod|divmod)di[34])$", re.M)
# Each object that make gives up, whatever its compiler said.
_FAILED = re.compile(r"^make\S* \*\*\* \[\S+: (\S+\.o)\] Error", re.M)


@dataclass(frozen=True)
class Architecture:
    """An architecture by the name that make's ARCH has; `target` is its compiler's, if another.

    `drivers`: it has the buses that drivers are for.
    """

    name: str
    target: str = ""
    bits: int = 64
    drivers: bool = True


ARCHITECTURES = (
    # Where what x86 promises is not there: CONFIG_X86_TSC without a TSC. KUnit runs on it.
    Architecture("um", drivers=False),
    Architecture("i386", bits=32),
    Architecture("arm64", target="aarch64-linux-gnu"),
)


@dataclass
class Compiling:
    """One architecture's output folder, for trees that go through a series."""

    architecture: Architecture
    plan: build.Plan
    labroot: LabRoot
    tree: Path
    output: Path
    log: Path
    compiler: Path | None = None
    # Whether the options fit the tree; a patch may have changed a Kconfig file.
    configured: bool = field(default=False)

    def prepare(self) -> None:
        """Bring the options up to the tree. SkblabError if it cannot be configured or begun."""
        if self.configured:
            return
        self._configure()
        self._make().run([*self._words(), "prepare"], f"preparing {self.architecture.name}")
        self.configured = True

    def complaints(self, objects: Sequence[str]) -> Findings:
        """Return what compiling `objects` complains of, and which cannot be compiled.

        SkblabError if make fails for another reason than an object.
        """
        make = self._make()
        # What it has is of the tree before.
        make.log.unlink(missing_ok=True)
        try:
            output = make.run([*self._words(), "-k", *objects], "compiling")
        except SkblabError:
            output = make.log.read_text(errors="replace") if make.log.is_file() else ""
            failed = set(_FAILED.findall(output))
            if not failed:
                raise
            # Also where its words are unknown, as an assembler's, or nothing was said: it is no
            # object. They would have the name of a temporary file, too.
            name = self.architecture.name
            uncompiled = Findings(f"{one} {UNCOMPILED} {name}" for one in failed)
        else:
            uncompiled = Findings()
        return findings.read(output) + uncompiled + self._divisions(objects)

    def _divisions(self, objects: Sequence[str]) -> Findings:
        there = [name for name in objects if (self.output / name).is_file()]
        if self.architecture.bits != 32 or not there:
            return Findings()
        bind = Bind(self.output, "build")
        call = ["nm", "-A", "-u", *(f"{bind.inside}/{name}" for name in there)]
        said = self.labroot.run(call, binds=[bind], what="nm")
        return Findings(
            f"{name}: error: {symbol}() is not in the kernel: use div64_u64() or its like"
            for name, symbol in _DIVISION.findall(said)
        )

    def _configure(self) -> None:
        self.output.mkdir(exist_ok=True)
        names = [FRAGMENT, *([DRIVERS] if self.architecture.drivers else [])]
        names += [name for name in self.plan.request.fragments if name == "skblab"]
        config.merge(
            names,
            self.tree,
            self.output,
            self.labroot,
            self.log.with_name(f"{self.log.stem}-config.log"),
            half_applied=True,
            env=self._env(),
            binds=self._binds(),
        )

    def _make(self) -> build.Make:
        return build.Make(
            *(self.plan, self.labroot, self.tree, self.output, self.log),
            binds=self._binds(),
            env=self._env(),
        )

    def _words(self) -> list[str]:
        if not self.architecture.target:
            return []
        # Behind those of every build, the last of which holds.
        return [f"CC=ccache {self.architecture.target}-gcc"]

    def _binds(self) -> tuple[Bind, ...]:
        return () if self.compiler is None else (Bind(self.compiler, "tools"),)

    def _env(self) -> dict[str, str]:
        env = {"ARCH": self.architecture.name}
        if self.compiler is not None:
            env["CROSS_COMPILE"] = f"{self.architecture.target}-"
            env["PATH"] = f"/skblab/tools/usr/bin:{BASE_ENV['PATH']}"
            env["LD_LIBRARY_PATH"] = "/skblab/tools/usr/lib/x86_64-linux-gnu"
        return env


def compiler(architecture: Architecture, labroot: LabRoot, reporter: Reporter) -> Path | None:
    """Return a folder with the unpacked compiler, or None for that of the lab root."""
    if not architecture.target:
        return None
    what = f"the compiler for {architecture.name}"
    return extra.unpacked(KIND, [f"gcc-{architecture.target}"], what, labroot, reporter)
