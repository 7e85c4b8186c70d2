# SPDX-License-Identifier: GPL-2.0-or-later
"""The traffic program in networks of its own, which go with it however it ends.

As root: in the lab root, in a network namespace with its own loopback, and two more with a veth
pair between them. Nothing of it is seen in the machine's own network. Else over the machine's
loopback.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TypeVar

from skblab.lab.labroot import Bind, LabRoot
from skblab.testbeds import base
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.pathlat import ToolDocument

PLACES: tuple[str, ...] = ("loopback", "veth")
One = TypeVar("One", bound=ToolDocument)
Other = TypeVar("Other", bound=ToolDocument)
_ENDING_S = 2.0


class Programs:
    """Runs trials, one after the other; ends with the `with` block, or with skblab."""

    def __init__(self, folder: Path, program: str, labroot: LabRoot | None) -> None:
        """`labroot` is None where there are no root rights: then the program runs as it is."""
        own = (resources.files(__package__) / "tester.sh").read_text()
        text = "\n".join((base.functions("net"), own, 'serve "$@"'))
        if labroot is None:
            argv = ["sh", "-c", text, "sh", str(folder / program), "no"]
        else:
            words = ["sh", "-c", text, "sh", f"{Bind(folder, 'tools').inside}/{program}", "yes"]
            inside = labroot.command(words, binds=[Bind(folder, "tools")])
            argv = ["unshare", "--net", "--", *inside]
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.places = PLACES
        self.without_veth = ""

    def __enter__(self) -> Programs:
        try:
            said = self._line()
        except BaseException:
            self.__exit__()
            raise
        if said != "both":
            what, _, self.without_veth = said.partition(": ")
            self.places = PLACES[:1] if what == "only loopback" else ()
        return self

    def __exit__(self, *_: object) -> None:
        # Between trials it ends by itself, and removes its files.
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=_ENDING_S)
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._process.stderr.read().strip().splitlines() or ["it said nothing"]
            raise SkblabError(f"the traffic programs have ended too early: {said[-1]}")
        return line.strip()

    def _ask(self, words: Sequence[object], documents: int) -> list[str]:
        """Run programs; return their documents. SkblabError, in one line, if they print others."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # It says why.
            self._line()
        found, said = list[str](), list[str]()
        while (line := self._line()) != "end":
            if line.startswith("{"):
                found.append(line)
            elif why := line.removeprefix("said").strip():
                said.append(why)
        if len(found) != documents:
            raise SkblabError(said[-1] if said else f"no document of {words[0]}")
        return found

    def alone(self, model: type[One], *words: object) -> One:
        """Run the program by itself; return what it says, which is to be such a document."""
        [found] = self._ask(("alone", *words), 1)
        return parse(model, found, _what(words))

    def pair(
        self,
        place: str,
        models: tuple[type[One], type[Other]],
        waits: Sequence[object],
        sends: Sequence[object],
    ) -> tuple[One, Other]:
        """Run two; return the document of the one that sends, then of the one that waits.

        `models` are what these are to be.
        """
        sender, waiter = self._ask(("pair", place, free_port(), *waits, "/", *sends), 2)
        return parse(models[0], sender, _what(sends)), parse(models[1], waiter, _what(waits))


def _what(words: Sequence[object]) -> str:
    return f"the document of skblab-traffic {words[0]}"


def free_port() -> int:
    """Return a UDP port that nobody has: without root rights loopback is the machine's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def is_root() -> bool:
    """Return whether namespaces can be made."""
    return os.geteuid() == 0
