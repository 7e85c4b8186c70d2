# SPDX-License-Identifier: GPL-2.0-or-later
"""Building a kernel: what its cache key is made of, the compile itself, what is kept of it."""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.cache import sizes
from skblab.lab.kernel import blame, config, incremental, packaged, registry, source
from skblab.lab.kernel.model import (
    CHANGES,
    COMMIT,
    OWN_FRAGMENT,
    RECORD,
    Flavour,
    Kernel,
    Record,
    Request,
)
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError

# Raise when the steps below make another kernel from the same input.
RECIPE = "1"
MIN_FREE_GIB = 4

# Everything that would tell where, when and by whom a kernel was built is fixed, and source
# and output are always at the same paths in the sandbox: same input, same image.
REPRODUCIBLE = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
    "KBUILD_BUILD_USER": "skblab",
    "KBUILD_BUILD_HOST": "skblab",
    "KBUILD_BUILD_VERSION": "1",
}
# Depend mode spares a second run of the preprocessor on each miss.
CCACHE = {"CCACHE_DIR": "/skblab/ccache", "CCACHE_DEPEND": "1"}
# The kernel's compiler, and that of programs that the build itself runs.
COMPILERS = ("CC=/skblab/build/.cc", "HOSTCC=/skblab/build/.hostcc")
# What a source takes in by .incbin the cache does not know. kbuild names the source last.
CACHED_COMPILER = """#!/bin/sh
for source; do :; done
case $source in
*.[cS]) grep -qs '[.]incbin' "$source" && exec {compiler} "$@" ;;
esac
exec ccache {compiler} "$@"
"""

# The header that every file includes and that has every option; and instead of it, what stands for
# all options but those of our series that are as its fragment has them. A file that knows these is
# one that the series changes, or that includes one: the compiler cache sees that by itself. So a
# kernel with the series and one without share all other objects.
OPTIONS_HEADER = "include/generated/autoconf.h"
SHARED_OPTIONS = ".config-shared"

# Debian packages of the lab root that can change the image; their versions are in the key.
TOOLCHAIN = re.compile(
    r"(gcc|cpp|binutils|dwarves|bison|flex|bc|make|perl|openssl|xz-utils|zstd|gzip|libelf1t?6?4?"
    r"|gcc-\d+|cpp-\d+|binutils-x86-64-linux-gnu|libc6-dev)$"
)
# And that of another compiler, for what it builds.
CLANG = re.compile(r"clang-\d+$")

# Lines that a build of each flavour prints; only the first progress bar depends on it.
TYPICAL_LINES: dict[Flavour, int] = {
    "stock": 2400,
    "rt": 2400,
    "debug": 2500,
    "kcsan": 2400,
    "kmsan": 2400,
}
# The steps at the end print few lines and take long: how many compiled files each is worth.
SLOW_STEPS = {"vmlinux.o": 10, "BTF": 40, "KSYMS": 6, "NM": 4, "MODPOST": 4}
# All of these, and a few files: what a build prints that goes on where one ended.
RESUMED_LINES = 90


@dataclass(frozen=True)
class Plan:
    """All that a kernel depends on, found without touching the sources. `key` names it."""

    request: Request
    source: source.Source
    series: Series | None
    toolchain: Mapping[str, str]
    key: str

    @property
    def foreign(self) -> bool:
        """Whether the source is of no line of ours, and may lack what the fragments ask for."""
        return not self.request.line.suits(self.source.version)


def plan(request: Request, labroot: LabRoot, reporter: Reporter | None = None) -> Plan:
    """Return what will be built; raises UsageError for what can be known to be wrong now.

    Debian's source is fetched first, if the line is one that the lab root has not.
    """
    origin = source.asked_for(request, labroot, reporter)
    series = source.series_for(origin, request.alternative) if request.patches else None
    versions = labroot.versions
    tools = [TOOLCHAIN, CLANG] if request.compiler == "clang" else [TOOLCHAIN]
    toolchain = {
        name: versions[name] for name in sorted(versions) if any(one.match(name) for one in tools)
    }
    fragments = [config.fragment(name) for name in request.fragments]
    for file in fragments:
        config.read_fragment(file)
    key = store.digest(
        [
            RECIPE,
            request.flavour,
            request.local_version,
            origin.digest,
            *(series.built_from() if series else ()),
            *(file.read_text() for file in fragments),
            *((request.own.text,) if request.own else ()),
            *(f"{name} {version}" for name, version in toolchain.items()),
        ]
    )
    return Plan(request, origin, series, toolchain, key)


def ensure(request: Request, labroot: LabRoot, reporter: Reporter) -> Kernel:
    """Return the kernel that `request` asks for, building or fetching what the cache has not.

    Raises UsageError for wrong input, and SkblabError, in one line and with the log's path,
    when a patch does not apply, an option is refused, the compile fails or the disk is full.
    """
    if request.packaged is not None:
        return packaged.ensure(request.packaged, labroot, reporter)
    wanted = plan(request, labroot, reporter)
    path = store.ensure(
        registry.KIND, wanted.key, reporter, lambda part: _build(wanted, part, labroot, reporter)
    )
    built = Kernel(path, wanted.key)
    if built.changes is not None:
        reporter.say(
            f"{wanted.source.place} has changes that are not in its commit "
            f"{(built.commit or '')[:12]}: the kernel has them, and each run keeps them "
            f"(changes-{built.key}.diff)"
        )
    if (wanted.foreign or request.own) and (lacking := built.record.lacking):
        reporter.say(config.told(lacking, wanted.source.version))
    return built


def _build(wanted: Plan, part: Path, labroot: LabRoot, reporter: Reporter) -> None:
    free = shutil.disk_usage(part).free / 2**30
    if free < MIN_FREE_GIB:
        raise SkblabError(
            f"{free:.1f} GiB free at {part.parent}, building a kernel needs {MIN_FREE_GIB} GiB; "
            "free some space or set SKBLAB_CACHE to a larger disk"
        )
    start = time.monotonic()
    with source.tree(wanted.source, wanted.series, labroot, reporter) as tree:
        _compile(wanted, tree, part, labroot, reporter, start)


def _compile(
    wanted: Plan, tree: Path, part: Path, labroot: LabRoot, reporter: Reporter, start: float
) -> None:
    """Build the kernel of a tree into `part`; the build began at `start` (monotonic seconds)."""
    with incremental.output(_kept_as(wanted), tree, part, reporter) as output:
        _make(wanted, tree, part, output, labroot, reporter, start)


def _kept_as(wanted: Plan) -> str | None:
    """Return what names the output folder that the next build of this user's tree goes on in.

    None where it is not kept: Debian's source stays the same, and a series makes another tree.
    """
    if wanted.series is not None or wanted.source.place.is_file():
        return None
    request = wanted.request
    return store.digest(
        [
            RECIPE,
            wanted.source.origin,
            # What another line has generated is in the way of this one's.
            wanted.source.line,
            request.flavour,
            request.local_version,
            *(config.fragment(name).read_text() for name in request.fragments),
            *((request.own.text,) if request.own else ()),
            *(f"{name} {version}" for name, version in wanted.toolchain.items()),
        ]
    )


def _make(
    wanted: Plan,
    tree: Path,
    part: Path,
    into: incremental.Output,
    labroot: LabRoot,
    reporter: Reporter,
    start: float,
) -> None:
    output, resumed = into.folder, into.resumed
    logs = paths.cache() / "logs"
    log, shares = logs / f"kernel-{wanted.key}.log", can_share(wanted.request)
    make = Make(wanted, labroot, tree, output, log, shares=shares)

    with reporter.step("kernel config"):
        request, merged = wanted.request, logs / f"kernel-config-{wanted.key}.log"
        names, compiler = request.fragments, request.compiler
        lacking = config.merge(
            *(names, tree, output, labroot, merged),
            compiler=compiler,
            foreign=wanted.foreign,
            added=request.own,
        )
    what = f"kernel {wanted.source.version}{wanted.request.local_version}"
    again = ": only what changed since its last build" if resumed else ""
    reporter.say(f"compiling {what} with {wanted.request.jobs} jobs{again}")
    with reporter.step("kernel compile"):
        lines = compile_all(make, what, reporter, total=RESUMED_LINES if resumed else 0)
        into.lines = max(into.lines, lines)
    with reporter.step("kernel keep"):
        release = make.run(["-s", "kernelrelease"], "asking for the release").strip()
        _keep(make, part)
        _record(wanted, part, release, time.monotonic() - start, into.lines, lacking)


@dataclass(frozen=True)
class Make:
    """The kernel's make, in the sandbox, for one tree and one output folder.

    `prefix` runs make as its last words; `binds` and `env` are further ones of the sandbox. With
    `shares`, which only a whole configuration may have (see can_share()), kernels with our series
    and without share objects.
    """

    plan: Plan
    labroot: LabRoot
    tree: Path
    output: Path
    log: Path
    prefix: tuple[str, ...] = ()
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False

    def run(
        self, words: Sequence[str], what: str, on_line: Callable[[str], None] | None = None
    ) -> str:
        """Run make with `words`; the first `error:` of a failed compile becomes the error."""
        request = self.plan.request
        compiler_cache = paths.cache() / "ccache"
        compiler_cache.mkdir(exist_ok=True)
        for name, compiler in ((".cc", request.compiler), (".hostcc", "gcc")):
            script = self.output / name
            script.write_text(CACHED_COMPILER.format(compiler=compiler))
            script.chmod(0o755)
        argv = ["make", "-C", "/skblab/src", "O=/skblab/build", *COMPILERS]
        argv += [f"LOCALVERSION={request.local_version}", f"-j{request.jobs}"]
        with blame.explaining(what, self.log):
            return self.labroot.run(
                ["nice", *self.prefix, *argv, *words],
                binds=[
                    Bind(self.tree, "src"),
                    Bind(self.output, "build", writable=True),
                    Bind(compiler_cache, "ccache", writable=True),
                    *self.binds,
                ],
                env={
                    **REPRODUCIBLE,
                    **CCACHE,
                    "CCACHE_MAXSIZE": sizes.ccache_limit(),
                    **self._sharing(),
                    **self.env,
                },
                what=what,
                log=self.log,
                on_line=on_line,
            )

    def _sharing(self) -> Mapping[str, str]:
        if not self.shares:
            return {}
        (self.output / SHARED_OPTIONS).write_text(
            shared_options(
                (self.output / ".config").read_text(), config.fragment("skblab").read_text()
            )
        )
        return {
            "CCACHE_IGNOREHEADERS": OPTIONS_HEADER,
            "CCACHE_EXTRAFILES": f"/skblab/build/{SHARED_OPTIONS}",
        }


def can_share(request: Request) -> bool:
    """Whether what the series does not touch is the same in a kernel without it.

    Not if it is applied and switched off: then what it touches has two forms.
    """
    return request.trace or not request.patches


def shared_options(text: str, ours: str) -> str:
    """Return a configuration without the lines that the fragment `ours` has as well."""
    own = {line for line in ours.splitlines() if line.startswith("CONFIG_")}
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() not in own)


def compile_all(
    make: Make, what: str, reporter: Reporter, *, target: str = "all", total: float = 0
) -> int:
    """Compile everything; return the weighted number of steps, the next bar's total."""
    if not total:
        last = registry.last_build(make.plan.request.flavour)
        total = last.output_lines if last else TYPICAL_LINES[make.plan.request.flavour]
    done = 0
    with reporter.bar(f"compiling {what}", total) as update:

        def line(text: str) -> None:
            nonlocal done
            done += weight(text)
            update(done)

        make.run([target], f"compiling {what}", on_line=line)
    return done


def weight(line: str) -> int:
    """Return how many compiled files' time this output line of make stands for."""
    step = blame.STEP.match(line)
    if step is None:
        return 0
    slow = [worth for name, worth in SLOW_STEPS.items() if name in (step[1], step[2])]
    return slow[0] if slow else int(step[1] in ("CC", "AS", "HOSTCC"))


def _keep(make: Make, part: Path) -> None:
    """Have in `part` what is of use of the output folder, which goes on without its headers."""
    headers = part / "build"
    # Of a build that failed here.
    store.remove(make.output / "headers")
    # The kernel's own script for linux-headers packages; what it makes stands by itself.
    script = "/skblab/src/scripts/package/install-extmod-build"
    make.run(
        ["run-command", f"KBUILD_RUN_COMMAND=sh {script} /skblab/build/headers"],
        "keeping what modules need",
    )
    output = make.output
    image = output / "arch" / "x86" / "boot" / "bzImage"
    for made in (image, output / "vmlinux", output / "System.map"):
        if not made.is_file():
            raise blame.SourceError(
                f"the build ended well and made no {made.relative_to(output)}: is it a kernel for "
                f"x86-64? Whole output: {make.log}"
            )
    (output / "headers").rename(headers)
    # Copies: a build that goes on there writes to its own.
    for made in (image, output / "vmlinux", output / "System.map"):
        shutil.copy2(made, part / made.name)
    shutil.copy2(output / ".config", part / "config")
    shutil.copy2(output / ".config", headers / ".config")
    # SystemTap looks for these beside the headers.
    (headers / "vmlinux").symlink_to("../vmlinux")
    (headers / "System.map").symlink_to("../System.map")


def _record(
    wanted: Plan,
    part: Path,
    release: str,
    seconds: float,
    lines: int,
    lacking: Sequence[config.Ask],
) -> None:
    own = wanted.request.own
    if own is not None:
        disk.write_whole(part / OWN_FRAGMENT, own.text)
    commit, changed = source.kept_changes(wanted.source)
    if commit is not None:
        disk.write_whole(part / COMMIT, commit)
    if changed:
        disk.write_whole(part / CHANGES, changed)
    record = Record(
        key=wanted.key,
        release=release,
        flavour=wanted.request.flavour,
        patched=wanted.request.patches,
        series=wanted.series.name if wanted.series else None,
        patches=wanted.series.records() if wanted.series else (),
        source=str(wanted.source.place),
        source_version=wanted.source.version,
        source_digest=wanted.source.digest,
        revision=wanted.source.revision,
        lacking=tuple(ask.option for ask in lacking),
        toolchain=dict(wanted.toolchain),
        fragments=(*wanted.request.fragments, *((str(own.file),) if own else ())),
        config_sha256=_sha256(part / "config"),
        image_sha256=_sha256(part / "bzImage"),
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        output_lines=lines,
    )
    disk.write_whole(part / RECORD, record.model_dump_json(indent=1) + "\n")


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
