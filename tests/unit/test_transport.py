# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands over a transport, with a local shell in place of the SSH client."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from skblab.transport import SshTransport
from skblab.transport.base import TransportError


def _local(argv: Sequence[str]) -> list[str]:
    """Return what runs the remote command line here, in place of ssh and its options."""
    # It is the command itself that is ended: what a shell had started would go on.
    return ["sh", "-c", f"exec {argv[-1]}"]


@pytest.fixture
def transport() -> SshTransport:
    return SshTransport(options=[], destination="here", wrap=_local)


def test_large_input_for_a_slow_reader_arrives_whole(transport: SshTransport) -> None:
    text = "x" * 1_000_000
    done = transport.run(["sh", "-c", "sleep 1; wc -c"], stdin=text, seconds=30)
    assert (done.status, done.stdout.strip()) == (0, "1000000")


def test_a_command_that_takes_too_long_is_ended(transport: SshTransport) -> None:
    with pytest.raises(TransportError, match="did not end within 1 s"):
        transport.run(["sleep", "30"], seconds=1)


def test_status_and_both_streams_come_back(transport: SshTransport) -> None:
    done = transport.script("echo out; echo err >&2; exit 3")
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")
