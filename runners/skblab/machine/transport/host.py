# SPDX-License-Identifier: GPL-2.0-or-later
"""A host over SSH, with keys and known hosts as OpenSSH has them, and what is done there.

What is done is undone by a shell of the host's that waits for us: whatever happens to this process
or to the connection, nothing stays behind.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from skblab.machine.transport.base import Running, Transport, TransportError
from skblab.machine.transport.local import LocalTransport
from skblab.machine.transport.ssh import SshTransport
from skblab_analysis.base.errors import SkblabError

# An emulated host that gets little of a processor takes that long for a key exchange.
CONNECT_SECONDS = 90
# For a script that takes a second where a machine is not busy.
SCRIPT_SECONDS = 120
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9._:-]+")
# A host that answers nothing for half a minute has gone.
_UNASKED = "BatchMode=yes"
_OPTIONS = (_UNASKED, "ServerAliveInterval=10", "ServerAliveCountMax=3")
_FOLDER = """folder=$(mktemp -d -t skblab.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT PIPE TERM
echo "$folder"
"""


def is_host(name: str) -> bool:
    """Whether this can be a host's name for ssh, such as root@router: never one of its options."""
    return _HOST.fullmatch(name) is not None and not name.startswith("-")


@contextlib.contextmanager
def connected(host: str, config: Path | None = None) -> Iterator[SshTransport]:
    """Have a connection to a host, with this configuration file of ssh's instead of the user's."""
    with temporary(LocalTransport()) as sockets:
        options = ["-F", str(config)] if config else []
        ssh = SshTransport(
            [*options, "-S", f"{sockets}/ssh", *map("-o{}".format, _OPTIONS)],
            host,
            # Else the shared connection, and what runs by it, would outlive a kill -9.
            wrap=lambda call: ["setpriv", "--pdeathsig", "KILL", "--", *call],
        )
        try:
            _reach(ssh, host, config)
            yield ssh
        finally:
            ssh.close()


def _reach(ssh: SshTransport, host: str, config: Path | None) -> None:
    try:
        ssh.connect(CONNECT_SECONDS)
    except TransportError as error:
        call = ["ssh", *(["-F", str(config)] if config else []), "-o", _UNASKED, host, "true"]
        raise TransportError(
            f"{error}; this has to work without a question: {shlex.join(call)}"
        ) from error


@contextlib.contextmanager
def brought(transport: Transport, bundle: Path) -> Iterator[str]:
    """Have the programs of a bundle (see portable) in a folder there, whose name is given."""
    with temporary(transport) as place:
        transport.put(bundle / "bundle.tar", f"{place}/bundle.tar")
        transport.run(["tar", "-xf", f"{place}/bundle.tar", "-C", place]).check("unpacking")
        yield place


def temporary(transport: Transport) -> AbstractContextManager[str]:
    """Have a folder on a machine, whose name is given."""
    return kept(transport, _FOLDER, "making a folder")


@contextlib.contextmanager
def kept(transport: Transport, do: str, what: str, undo: str = "") -> Iterator[str]:
    """Have one shell of the machine do something, and undo it in the end, whatever happens to us.

    `do` prints one line, which is returned. The shell waits for the end of its input, which comes
    with the end of this block, of this process, or of the connection; `undo` follows, unless `do`
    has set a trap that undoes it, also where the shell is told to end.
    """
    # What waits has no lock that the shell may have taken: it would keep it if the shell is killed.
    guard = transport.start(["sh", "-euc", f"{do}\ncat >/dev/null 6>&- 7>&- 9>&-\n{undo}"])
    try:
        deadline = time.monotonic() + SCRIPT_SECONDS
        while not (said := guard.take_lines()):
            if not guard.running():
                guard.wait(SCRIPT_SECONDS).check(what)
            if time.monotonic() > deadline:
                raise SkblabError(f"{what} took longer than {SCRIPT_SECONDS} s")
            time.sleep(0.02)
        yield said[0].strip()
    except BaseException as error:
        # The first trouble is the one to tell of.
        try:
            _let_go(guard, what)
        except SkblabError as second:
            error.add_note(str(second))
        raise
    _let_go(guard, what)


def _let_go(guard: Running, what: str) -> None:
    guard.end_input()
    guard.wait(SCRIPT_SECONDS).check(f"undoing: {what}")
