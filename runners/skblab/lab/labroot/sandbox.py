# SPDX-License-Identifier: GPL-2.0-or-later
"""Running a command inside a root folder, in namespaces of its own.

The command gets a private mount and process namespace: no mount is ever visible on the host,
and when skblab dies, however it dies, the kernel kills the command and all its children.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Empty folders made in every lab root, where callers may bind what a command needs.
MOUNT_POINTS = (
    "root",
    "tree",
    "src",
    "build",
    "ccache",
    "out",
    "run",
    "kernel",
    "tools",
    "cargo",
    "sock",
)

BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Bind:
    """Show host folder `source` at `/skblab/<point>` in the root (a name of MOUNT_POINTS)."""

    source: Path
    point: str
    writable: bool = False

    def __post_init__(self) -> None:
        if self.point not in MOUNT_POINTS:
            raise ValueError(f"{self.point!r} is no mount point of the lab root")

    @property
    def inside(self) -> str:
        """The folder's path as the command sees it."""
        return f"/skblab/{self.point}"


def command(
    root: Path,
    argv: Sequence[str],
    *,
    binds: Sequence[Bind] = (),
    workdir: str = "/",
    env: Mapping[str, str] | None = None,
    network: bool = False,
    rootless: bool = False,
) -> list[str]:
    """Return the host command that runs `argv` in `root`.

    The root itself is read-only; /tmp and /run are fresh tmpfs. With `network`, the host's
    resolver and CA certificates are bound, for package clients. Needs root rights, unless
    `rootless`: then the command is root in a user namespace, and the root's files are protected by
    their owner only.
    """
    prefix = kill_with_parent(rootless=rootless)
    return [*prefix, "sh", "-ec", _script(root, argv, binds, workdir, env, network, rootless)]


def kill_with_parent(*, rootless: bool = False) -> list[str]:
    """Return the prefix that gives a command its own mount and process namespaces.

    setpriv kills unshare when skblab dies, unshare kills the first process of the namespace,
    and the kernel kills the rest of it. With `rootless` a user namespace makes that possible.
    """
    return [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", *(("--user", "--map-root-user") if rootless else ())),
        *("--mount", "--propagation", "private"),
        *("--pid", "--fork", "--kill-child=KILL"),
    ]


def _script(
    root: Path,
    argv: Sequence[str],
    binds: Sequence[Bind],
    workdir: str,
    env: Mapping[str, str] | None,
    network: bool,
    rootless: bool,
) -> str:
    quote = shlex.quote
    lines = [f"cd {quote(str(root))}"]
    if not rootless:
        # A user namespace may neither change a mount's flags nor, in a container, mount /proc.
        lines += [
            f"mount --bind {quote(str(root))} {quote(str(root))}",
            f"mount -o remount,bind,ro {quote(str(root))}",
            # The shell still stands in the folder below the new mount: enter it anew.
            f"cd {quote(str(root))}",
            "mount -t proc proc proc",
        ]
    lines += [
        "mount --rbind /dev dev",
        "mount -t tmpfs -o mode=1777 tmpfs tmp",
        "mount -t tmpfs -o mode=755 tmpfs run",
    ]
    if network:
        lines += [
            'mount --bind "$(readlink -f /etc/resolv.conf)" etc/resolv.conf',
            "mount --bind /etc/ssl/certs etc/ssl/certs",
            "mount -o remount,bind,ro etc/ssl/certs",
        ]
    for bind in binds:
        lines.append(f"mount --bind {quote(str(bind.source))} skblab/{bind.point}")
        if not bind.writable:
            lines.append(f"mount -o remount,bind,ro skblab/{bind.point}")
    settings = " ".join(
        quote(f"{name}={value}") for name, value in {**BASE_ENV, **(env or {})}.items()
    )
    inner = f"cd {quote(workdir)} && exec /usr/bin/env -i {settings} {shlex.join(argv)}"
    lines.append(f"exec chroot . /bin/sh -c {quote(inner)}")
    return "\n".join(lines)
