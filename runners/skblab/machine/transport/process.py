# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes of this machine through which a transport runs its commands."""

from __future__ import annotations

import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from skblab.machine.transport.base import Done, TransportError
from skblab_analysis.base.errors import SkblabError, one_line

POLL_SECONDS = 0.25

# A sentence when the machine is known to be in trouble (a guest's panic), else None.
Trouble = Callable[[], str | None]


def no_trouble() -> str | None:
    """Nothing is known."""
    return None


def popen(call: Sequence[str], stdin: IO[bytes] | int = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start a process whose output is read; Ctrl-C does not reach it."""
    return subprocess.Popen(
        call,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def short(argv: Sequence[str]) -> str:
    """The command in a few words, for messages."""
    return one_line(shlex.join(argv), 60)


def finish(
    process: subprocess.Popen[str], argv: Sequence[str], seconds: float, trouble: Trouble
) -> Done:
    """Wait for the end. Raises TransportError if there is trouble, or it takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            out, err = process.communicate(timeout=POLL_SECONDS)
            return Done(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            complaint = trouble()
            if complaint is None and time.monotonic() > deadline:
                complaint = f"`{short(argv)}` did not end within {seconds:.0f} s"
            if complaint:
                process.kill()
                process.communicate()
                raise TransportError(complaint) from None
        except BaseException:
            process.kill()
            raise


def run(
    call: Sequence[str], argv: Sequence[str], stdin: str, seconds: float, trouble: Trouble
) -> Done:
    """Run `call`, which is `argv` on whatever machine, to its end, as `finish` says."""
    # A file, not a pipe: communicate() forgets what it has not yet written when it times out.
    with tempfile.TemporaryFile() as text:
        text.write(stdin.encode())
        text.seek(0)
        with popen(call, text) as process:
            return finish(process, argv, seconds, trouble)


# How long the output of a command that has ended may take to arrive.
LAST_WORDS_SECONDS = 1.0


class Background:
    """A command in the background. Its output is read by threads, so it never blocks."""

    def __init__(
        self, process: subprocess.Popen[str], argv: Sequence[str], trouble: Trouble = no_trouble
    ) -> None:
        self.argv = argv
        self._process = process
        self._trouble = trouble
        self._chunks: dict[str, list[str]] = {"out": [], "err": []}
        self._taken = {"out": 0, "err": 0}
        # Until when running() waits for its last output, once it has ended.
        self._heard: float | None = None
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._chunks
        ]
        for reader in self._readers:
            reader.start()

    def note(self, line: str) -> bool:
        """Look at a line of standard error; True if it is not the command's own."""
        del line
        return False

    def _read(self, name: str) -> None:
        stream = self._process.stdout if name == "out" else self._process.stderr
        assert stream is not None
        for line in stream:
            if name == "out" or not self.note(line):
                self._chunks[name].append(line)

    def _said(self) -> str:
        return "".join(self._chunks["err"])

    def said(self, text: str) -> bool:
        """Tell whether `text` appeared on standard error."""
        return text in self._said()

    def running(self) -> bool:
        """Tell whether the command still runs. Raises TransportError if there is trouble."""
        if complaint := self._trouble():
            self._process.kill()
            raise TransportError(complaint)
        if self._process.poll() is None:
            return True
        # What it said last may be on its way, and a child of it may keep the pipe for longer.
        if self._heard is None:
            self._heard = time.monotonic() + LAST_WORDS_SECONDS
        for reader in self._readers:
            reader.join(max(0, self._heard - time.monotonic()))
        return False

    def take_lines(self) -> list[str]:
        """Return the whole lines of standard output that have come since the last call."""
        return self._take("out")

    def take_errors(self) -> str:
        """Return what came on standard error since the last call."""
        return "".join(self._take("err"))

    def _take(self, name: str) -> list[str]:
        lines = self._chunks[name][self._taken[name] :]
        self._taken[name] += len(lines)
        return lines

    def send(self, text: str) -> None:
        """Write to its standard input. Raises TransportError if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise TransportError(
                self._trouble() or f"`{short(self.argv)}` has ended: {one_line(self._said())}"
            ) from error

    def wait_for(self, text: str, seconds: float) -> None:
        """Return once `text` appeared on standard error."""
        deadline = time.monotonic() + seconds
        while not self.said(text):
            # Its last words may be those: they are heard before it counts as ended.
            if not self.running() and not self.said(text):
                self.wait(1).check(short(self.argv))
                raise SkblabError(f"`{short(self.argv)}` ended before it said {text!r}")
            if time.monotonic() > deadline:
                self._process.kill()
                raise SkblabError(
                    f"`{short(self.argv)}` did not say {text!r} within {seconds:.0f} s: "
                    f"{one_line(self._said()) or 'it printed nothing'}"
                )
            time.sleep(0.02)

    def interrupt(self) -> None:
        """Ask the command to finish (SIGINT)."""
        self._process.send_signal(signal.SIGINT)

    def end_input(self) -> None:
        """End its standard input, which stays open until then, or we are gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, seconds: float) -> Done:
        """Return the finished command; SkblabError if it takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                self._process.kill()
                raise SkblabError(f"`{short(self.argv)}` did not end within {seconds:.0f} s")
            time.sleep(0.02)
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return Done(self._process.returncode, "".join(self._chunks["out"]), self._said())
