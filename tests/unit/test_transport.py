# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands over a transport, with a local shell in place of the SSH client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from skblab.machine.transport import LocalTransport, Shell, SshTransport, staying
from skblab.machine.transport import shell as shells
from skblab.machine.transport.base import TransportError
from skblab.machine.transport.host import connected
from waiting import PATIENCE, until


def _local(argv: Sequence[str]) -> list[str]:
    """Return what runs the remote command line here, in place of ssh and its options."""
    # It is the command itself that is ended: what a shell had started would go on.
    return ["sh", "-c", f"exec {argv[-1]}"]


@pytest.fixture
def transport() -> SshTransport:
    return SshTransport(options=[], destination="here", wrap=_local)


def test_large_input_for_a_slow_reader_arrives_whole(transport: SshTransport) -> None:
    text = "x" * 1_000_000
    done = transport.run(["sh", "-c", "sleep 0.2; wc -c"], stdin=text, seconds=30)
    assert (done.status, done.stdout.strip()) == (0, "1000000")


def test_a_command_that_takes_too_long_is_ended(transport: SshTransport) -> None:
    with pytest.raises(TransportError, match="did not end within 0 s"):
        transport.run(["sleep", "30"], seconds=0.2)


def test_status_and_both_streams_come_back(transport: SshTransport) -> None:
    done = transport.script("echo out; echo err >&2; exit 3")
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")


FUNCTIONS = """
export GREETING=hello
greet() { echo "$GREETING $1"; }
"""


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell(LocalTransport(), FUNCTIONS)
    yield made
    made.end()


def test_a_shell_runs_script_after_script(shell: Shell) -> None:
    assert shell.script("greet you").stdout == "hello you\n"
    # Nothing of one is in the next.
    assert shell.script("GREETING=bye\ngreet you").stdout == "bye you\n"
    assert shell.script("greet me").stdout == "hello me\n"
    # What does not end its line, and what reads its input.
    assert shell.script("printf x; cat").stdout == "x"
    assert shell.script("seq 20000").stdout.splitlines()[-1] == "20000"


def test_a_script_that_fails_says_why_and_the_shell_stays(shell: Shell) -> None:
    for number in (3, 4):
        done = shell.script(f"echo before; echo why {number} >&2; (exit {number}); echo after")
        assert (done.status, done.stdout, done.stderr) == (number, "before\n", f"why {number}\n")
    # What another one said in passing is not its own, nor the end of that.
    shell.script("echo by the way >&2")
    assert shell.script("sleep 0.1; echo because >&2; exit 1").stderr.endswith("because\n")
    assert shell.script("echo $NOT_SET").status != 0
    assert shell.script("greet you").check("greeting").stdout == "hello you\n"


def test_scripts_of_a_transport_that_stays_share_a_shell() -> None:
    with staying(LocalTransport()) as transport:
        first = transport.script("echo $PPID $$").stdout
        assert transport.script("echo $PPID $$").stdout == first
        assert transport.run(["sh", "-c", "echo $$"]).stdout not in first


def until_ended(shell: Shell) -> None:
    until("the shell has ended", PATIENCE, lambda: not shell._running.running())


def test_a_shell_that_ends_or_does_not_answer_is_told(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It has not, when its time is up.
    monkeypatch.setattr(shells, "END_SECONDS", 0.1)
    end = tmp_path / "end"
    with pytest.raises(TransportError, match="a script did not end within 0 s"):
        shell.script(f"until [ -e {end} ]; do sleep 0.01; done", seconds=0.1)
    end.touch()
    with pytest.raises(TransportError, match="the shell ended"):
        Shell(LocalTransport(), "echo gone >&2\nexit 0").script("echo never")
    # One that ended before it was asked for anything takes no script.
    ended = Shell(LocalTransport(), "echo gone >&2\nexit 0")
    until_ended(ended)
    with pytest.raises(TransportError, match="the shell ended: gone"):
        ended.script("echo never")


def test_a_host_that_is_not_there_names_what_has_to_work(tmp_path: Path) -> None:
    config = tmp_path / "ways of mine"
    config.write_text("Host box\n ProxyCommand false\n")
    with pytest.raises(TransportError) as raised, connected("root@box", config):
        raise AssertionError
    assert str(raised.value).startswith("no connection to root@box: ")
    call = f"ssh -F '{config}' -o BatchMode=yes root@box true"
    assert str(raised.value).endswith(f"; this has to work without a question: {call}")
