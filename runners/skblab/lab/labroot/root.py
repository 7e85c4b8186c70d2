# SPDX-License-Identifier: GPL-2.0-or-later
"""Making the lab root with mmdebstrap, and running commands in it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.labroot.sandbox import MOUNT_POINTS, Bind, command, kill_with_parent
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, UsageError, one_line, understood

SUITE = "trixie"
# Of a failed command's lines, those that say why; and make's own, which only say that it did.
TELLING = re.compile(r"\b(?:error|fatal|cannot|can't|E:)(?:[: ]|$)", re.IGNORECASE)
MAKES = re.compile(r"make(?:\[\d+\])?: \*\*\* ")
# What programs print when the disk is full, and apt when no mirror answers. Of a full disk, too, it
# prints that it failed to fetch.
FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded")
NO_MIRROR = re.compile(r"Temporary failure resolving|Could not (resolve|connect)|Failed to fetch")
# Raise when the recipe below changes in a way that the package list does not show.
RECIPE = "3"
# Lines that mmdebstrap prints to its log for this list; only the progress bar depends on it.
TYPICAL_LOG_LINES = 3000
# dpkg's options are written to the root: as options of mmdebstrap's, a filter in Python would see
# each file of the first packages. What they leave out is half of the files, and nobody reads it
# here. SELinux's 350 modules are kept as they are: packing them takes longer than compiling them.
# One flush at the end instead of one for each of 17,000 files. What guests and compilers find is as
# it was without all that, so RECIPE stays.
HOOKS = (
    (
        "extract",
        """set -e; printf '%s\\n' force-unsafe-io force-confold 'path-exclude=/usr/share/man/*' \\
            'path-exclude=/usr/share/locale/*' 'path-exclude=/usr/share/doc/*' \\
            >"$1/etc/dpkg/dpkg.cfg.d/skblab" """,
    ),
    (
        "essential",
        """set -e
        mkdir -p "$1/etc/selinux"
        printf '%s\\n' 'module-store = direct' expand-check=0 bzip-blocksize=0 \\
            >"$1/etc/selinux/semanage.conf" """,
    ),
    (
        "customize",
        """set -e
        rm -rf "$1"/usr/share/man/* "$1"/usr/share/doc/* "$1"/usr/share/locale/*
        rm -f "$1/etc/dpkg/dpkg.cfg.d/skblab"
        stock="$1/etc/selinux/semanage.conf.dpkg-dist"
        if [ -e "$stock" ]; then mv "$stock" "${stock%.dpkg-dist}"; fi
        sync -f "$1" """,
    ),
)
NEEDS = ("mmdebstrap", "unshare", "setpriv", "chroot", "mount")
MIN_FREE_GIB = 6


@dataclass(frozen=True)
class LabRoot:
    """A finished lab root. `key` names its content; `versions` maps package to version."""

    path: Path
    key: str

    @property
    def versions(self) -> dict[str, str]:
        """The version of every Debian package in the root."""
        file = self.path / "skblab" / "versions.json"
        text = file.read_bytes().decode(errors="replace")
        with understood(
            f"{file}; remove {self.path}, and the next command makes it anew: it", text
        ):
            return {str(name): str(version) for name, version in json.loads(text).items()}

    def command(
        self,
        argv: Sequence[str],
        *,
        binds: Sequence[Bind] = (),
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        network: bool = False,
        rootless: bool = False,
    ) -> list[str]:
        """Return the host command that runs `argv` in this root (see sandbox.command)."""
        return command(
            self.path,
            argv,
            binds=binds,
            workdir=workdir,
            env=env,
            network=network,
            rootless=rootless,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        binds: Sequence[Bind] = (),
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        network: bool = False,
        rootless: bool = False,
        log: Path | None = None,
        what: str = "",
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        """Run `argv` in the root and return what it printed (both streams).

        `log` keeps the output, `on_line` sees each line as it comes. Raises SkblabError,
        naming `what` and the last telling line, when the exit status is not 0.
        """
        call = self.command(
            argv, binds=binds, workdir=workdir, env=env, network=network, rootless=rootless
        )
        return run_logged(call, what or argv[0], log=log, on_line=on_line)


def run_logged(
    call: Sequence[str],
    what: str,
    *,
    log: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run a host command to its end and return its output; kill it on any exception."""
    lines: list[str] = []
    with subprocess.Popen(
        call,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Ctrl-C reaches skblab alone, which then ends the command in order.
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if on_line:
                    on_line(line)
        except BaseException:
            process.kill()
            raise
        finally:
            text = "".join(lines)
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_text(text)
    if process.returncode != 0:
        raise command_failed(what, text, process.returncode, log)
    return text


def command_failed(what: str, text: str, status: int, log: Path | None) -> SkblabError:
    """Return the one-line error for a failed command: its most telling output line."""
    if FULL_DISK.search(text):
        where = log or Path("/")
        return store.full_disk(where)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.search(line) and not MAKES.match(line)]
    why = (telling or lines or ["it printed nothing"])[0 if telling else -1]
    if status < 0:
        why = f"killed by {signal.Signals(-status).name}; {why}"
    kept = f"; whole output: {log}" if log else ""
    return SkblabError(f"{what} failed (exit {status}): {one_line(why)}{kept}")


def packages() -> list[str]:
    """Return the package names of the lab root, in the order of packages.txt."""
    text = resources.files(__package__).joinpath("packages.txt").read_text()
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def key() -> str:
    """Return the lab root's content key."""
    return store.digest([RECIPE, SUITE, platform.machine(), *MOUNT_POINTS, *sorted(packages())])


def existing() -> LabRoot | None:
    """Return the lab root if it is made already, and readable."""
    path = paths.cache_place() / "roots" / key()
    return LabRoot(path, key()) if os.access(path, os.R_OK | os.X_OK) else None


def ensure(reporter: Reporter) -> LabRoot:
    """Return the lab root, making it first if needed (about a minute, 2.5 GB)."""
    require_root("the lab root is used through chroot and mounts")
    path = store.ensure("roots", key(), reporter, lambda folder: _build(folder, reporter))
    return LabRoot(path, key())


def require_root(why: str) -> None:
    """Raise UsageError unless we have root rights."""
    if os.geteuid() != 0:
        raise UsageError(f"root rights are needed: {why}; run the same command with sudo")


def require_commands(names: Sequence[str]) -> None:
    """Raise UsageError naming the host commands that are missing and how to get them."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        raise UsageError(
            f"this machine lacks {', '.join(missing)}; mend with: make setup "
            "(or: apt-get install mmdebstrap debian-archive-keyring util-linux)"
        )


def _build(folder: Path, reporter: Reporter) -> None:
    require_commands(NEEDS)
    free = shutil.disk_usage(folder).free / 2**30
    if free < MIN_FREE_GIB:
        raise SkblabError(
            f"{free:.1f} GiB free at {folder.parent}, the lab root and a kernel need "
            f"{MIN_FREE_GIB} GiB; free some space or set SKBLAB_CACHE to a larger disk"
        )
    reporter.say(f"making the lab root: Debian {SUITE}, {len(packages())} packages and theirs")
    log = folder.parent / f"{folder.name.removesuffix('.part')}.log"
    seen = 0
    with reporter.step("lab root"), reporter.bar("lab root", TYPICAL_LOG_LINES) as update:

        def line(_: str) -> None:
            nonlocal seen
            seen += 1
            update(seen)

        try:
            run_logged(_mmdebstrap(folder), "mmdebstrap", log=log, on_line=line)
        except SkblabError as error:
            raise _explain(error, log) from error
    _finish(folder)


def _mmdebstrap(root: Path) -> list[str]:
    return [
        *kill_with_parent(),
        "mmdebstrap",
        "--mode=root",
        "--variant=apt",
        "--verbose",
        f"--include={','.join(packages())}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--{when}-hook={script}" for when, script in HOOKS),
        SUITE,
        str(root),
    ]


def _explain(error: SkblabError, log: Path) -> SkblabError:
    text = log.read_text(errors="replace") if log.exists() else ""
    if NO_MIRROR.search(text) and not FULL_DISK.search(text):
        return UsageError(
            "Debian's packages cannot be fetched: no network, or its mirror does not answer; "
            f"check with: apt-get update; whole output: {log}"
        )
    return error


def _finish(root: Path) -> None:
    for point in MOUNT_POINTS:
        (root / "skblab" / point).mkdir(parents=True)
    listing = subprocess.run(
        ["chroot", str(root), "dpkg-query", "-W", "-f", "${Package} ${Version}\n"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    versions = dict(line.split(" ", 1) for line in listing.splitlines())
    (root / "skblab" / "versions.json").write_text(json.dumps(versions, indent=1, sort_keys=True))
    # A name server file to bind the host's over, and a name of its own for the guest.
    (root / "etc" / "resolv.conf").unlink(missing_ok=True)
    (root / "etc" / "resolv.conf").touch()
    (root / "etc" / "hostname").write_text("skblab\n")
    bootstrap = root / "skblab" / "bootstrap"
    bootstrap.write_text(resources.files(__package__).joinpath("bootstrap.sh").read_text())
    bootstrap.chmod(0o755)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost skblab\n::1 localhost\n")
