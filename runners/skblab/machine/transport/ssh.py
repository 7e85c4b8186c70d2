# SPDX-License-Identifier: GPL-2.0-or-later
"""The transport over OpenSSH: its client does the protocol, sessions, terminals and status.

One connection is opened and shared by all sessions (ControlMaster), so that a command costs
a channel, not a handshake: under emulation that is the difference between 50 ms and 2 s.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skblab.machine.transport.base import Done, Running, TransportError
from skblab.machine.transport.process import (
    POLL_SECONDS,
    Background,
    Trouble,
    no_trouble,
    popen,
    run,
    short,
)
from skblab_analysis.base.errors import SkblabError, one_line

SSH_FAILED = 255
CLOSE_SECONDS = 2

# Turns the client's arguments into the host command that runs them (e.g. in the lab root).
Wrap = Callable[[Sequence[str]], list[str]]


@dataclass
class SshTransport:
    """Commands on the machine that `options` (ssh arguments, with `-S SOCKET`) lead to.

    `trouble` is asked while a command runs and after a failure: a sentence when the machine
    is known to be in trouble (a guest's panic), else None.
    """

    options: Sequence[str]
    destination: str
    wrap: Wrap = list
    trouble: Trouble = no_trouble
    _master: subprocess.Popen[str] | None = field(default=None, init=False)

    def connect(self, seconds: float) -> None:
        """Open the shared connection. Raises TransportError when it is not up in time."""
        self._master = subprocess.Popen(
            self.wrap(["ssh", *self.options, "-M", "-N", self.destination]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if complaint := self.trouble():
                raise TransportError(complaint)
            if self._master.poll() is not None:
                assert self._master.stderr is not None
                said = self._master.stderr.read()
                # A machine that dies takes the connection with it: its own word comes first.
                time.sleep(POLL_SECONDS)
                refused = f"no connection to {self.destination}: {one_line(said)}"
                # Where the machine ended because of it, its word alone would hide the cause.
                gone = self.trouble()
                raise TransportError(refused if gone is None else f"{gone} ({refused})")
            if self.connected():
                return
            time.sleep(0.1)
        raise TransportError(
            self.trouble() or f"{self.destination} did not answer within {seconds:.0f} s"
        )

    def connected(self) -> bool:
        """Tell whether the shared connection is up."""
        check = self._client("-O", "check")
        return subprocess.run(check, capture_output=True, check=False).returncode == 0

    def close(self) -> None:
        """Close the shared connection; nothing if it is closed."""
        if self._master is None:
            return
        if self._master.poll() is None:
            subprocess.run(self._client("-O", "exit"), capture_output=True, check=False)
            try:
                self._master.wait(timeout=CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self._master.kill()
                self._master.wait()
        if self._master.stderr is not None:
            self._master.stderr.close()
        self._master = None

    def _client(self, *arguments: str) -> list[str]:
        return self.wrap(["ssh", *self.options, *arguments, self.destination])

    def _session(self, argv: Sequence[str], *arguments: str) -> list[str]:
        remote = [shlex.join(argv)] if argv else []
        return self.wrap(["ssh", *self.options, *arguments, self.destination, "--", *remote])

    def run(self, argv: Sequence[str], *, stdin: str = "", seconds: float = 600) -> Done:
        """Run one command to its end. Raises TransportError if the machine goes away."""
        done = run(self._session(argv, "-T"), argv, stdin, seconds, self.trouble)
        self.raise_if_gone(done.status)
        return done

    def script(self, text: str, *, seconds: float = 600) -> Done:
        """Run a shell script given as text, with `set -eu`."""
        return self.run(["sh", "-eu", "-s"], stdin=text, seconds=seconds)

    def start(self, argv: Sequence[str]) -> Running:
        """Start a command in the background; it can be interrupted and waited for."""
        # The remote shell notes its process id first, so that a signal can be sent to it.
        line = f"echo $$ >&2; exec {shlex.join(argv)}"
        return _SshRunning(popen(self._session(["sh", "-c", line], "-T")), argv, self.trouble, self)

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        """Run a command, or a login shell, on our own terminal; return its exit status."""
        session = self._session(argv, "-tt" if tty else "-T", "-q")
        with subprocess.Popen(session) as process:
            try:
                while process.poll() is None:
                    if complaint := self.trouble():
                        raise TransportError(complaint)
                    try:
                        process.wait(timeout=POLL_SECONDS)
                    except subprocess.TimeoutExpired:
                        continue
            except BaseException:
                process.kill()
                raise
        self.raise_if_gone(process.returncode)
        return process.returncode

    def put(self, source: Path, target: str) -> None:
        """Copy a file to the machine."""
        call = self._session(["sh", "-c", f"cat > {shlex.quote(target)}"], "-T")
        with source.open("rb") as data:
            done = subprocess.run(call, stdin=data, capture_output=True, text=True, check=False)
        Done(done.returncode, "", done.stderr).check(f"copying {source} to {target}")

    def raise_if_gone(self, status: int) -> None:
        """Raise TransportError if a client's exit status means that the machine has gone."""
        if complaint := self.trouble():
            raise TransportError(complaint)
        if status == SSH_FAILED and not self.connected():
            # The command cannot have said 255 itself: the connection is gone. Give a dying
            # machine a moment to have its last words read.
            time.sleep(4 * POLL_SECONDS)
            raise TransportError(self.trouble() or f"the connection to {self.destination} broke")


class _SshRunning(Background):
    """A background command over SSH, which said its process id first."""

    _pid: int | None = None

    def __init__(
        self,
        process: subprocess.Popen[str],
        argv: Sequence[str],
        trouble: Trouble,
        transport: SshTransport,
    ) -> None:
        self._transport = transport
        super().__init__(process, argv, trouble)

    def note(self, line: str) -> bool:
        """Take the process id, which is the first line on standard error."""
        if self._pid is not None or not line.strip().isdigit():
            return False
        self._pid = int(line)
        return True

    def interrupt(self) -> None:
        """Ask the command to finish (SIGINT)."""
        if self._pid is None:
            raise SkblabError(f"`{short(self.argv)}` has not started; it cannot be interrupted")
        self._transport.run(["kill", f"-{signal.SIGINT.name[3:]}", str(self._pid)])

    def wait(self, seconds: float) -> Done:
        """Return the finished command; SkblabError if it takes longer than `seconds`."""
        done = super().wait(seconds)
        self._transport.raise_if_gone(done.status)
        return replace(done, pid=self._pid)
