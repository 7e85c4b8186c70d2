# SPDX-License-Identifier: GPL-2.0-or-later
"""Times that a queue discipline keeps: what leaves when, and what is said of what did not.

Needs root, iproute2, veth and a kernel with sch_fq and sch_etf. It lays out two network namespaces
below one that was made for it:

    unshare --net --mount python3 txtime.py SKBLAB-TRAFFIC-BINARY CASE
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COUNT, RATE = 1000, 1000
NEAR, FAR = "txtime-near", "txtime-far"
MAC = "02:00:00:00:00:02"
FOUR, SIX = "198.18.0.2:5000", "[2001:db8::2]:5000"
# So early a packet is with the kernel, and far longer than it takes through the link.
LEAD = "50ms"
LEAD_NS = 50_000_000
ETF = ("etf", "clockid", "CLOCK_TAI", "delta")
# etf gives a packet to the device so long before its time, and drops it if it is over then.
DELTA_NS, LONGER_LEAD = 200_000_000, "500ms"
SECONDS = 120


def run(*words: str) -> None:
    """Run a command that is to succeed."""
    subprocess.run(words, check=True)


def keep_by(*qdisc: str) -> None:
    """Give the sender's end a queue discipline."""
    run("tc", "-n", NEAR, "qdisc", "add", "dev", "v0", "root", *qdisc)


def lay_out(*qdisc: str) -> None:
    """Two namespaces with a link; the sender's end has a queue discipline."""
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in (NEAR, FAR):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    run("ip", "-n", NEAR, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", FAR)
    for name, number in ((NEAR, 1), (FAR, 2)):
        run("ip", "-n", name, "address", "add", f"198.18.0.{number}/24", "dev", "v0")
        run("ip", "-n", name, "address", "add", f"2001:db8::{number}/64", "dev", "v0", "nodad")
    run("ip", "-n", FAR, "link", "set", "v0", "address", MAC)
    for name in (NEAR, FAR):
        run("ip", "-n", name, "link", "set", "v0", "up")
    if qdisc:
        keep_by(*qdisc)
    # etf drops what has no time, such as the question for an address.
    for address in ("198.18.0.2", "2001:db8::2"):
        known = (address, "lladdr", MAC, "nud", "permanent", "dev", "v0")
        run("ip", "-n", NEAR, "neighbour", "replace", *known)


def exchange(binary: str, to: str, *options: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return what sender and receiver say, and the sender's words beside it."""
    count = ("--count", str(COUNT), "--rate", str(RATE))
    # Room for all: a receiver that does not run for a while loses none.
    waits = ("--expect", str(COUNT), "--seconds", "20", "--rcvbuf", "16777216")
    with tempfile.TemporaryFile("w+") as words:
        receiver = subprocess.Popen(
            ["ip", "netns", "exec", FAR, binary, "receive", "--bind", to, "--same-clock", *waits],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert receiver.stderr is not None
            assert receiver.stderr.readline() == "ready\n"
            sent = subprocess.run(
                ["ip", "netns", "exec", NEAR, binary, "send", "--to", to, *count, *options],
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                timeout=SECONDS,
                check=True,
            )
            if sent_nothing(sent.stdout):
                receiver.terminate()
            came, _ = receiver.communicate(timeout=SECONDS)
        finally:
            receiver.kill()
        words.seek(0)
        return json.loads(sent.stdout), json.loads(came), words.read()


def sent_nothing(document: str) -> bool:
    """Whether a receiver would wait in vain."""
    times = json.loads(document)["txtime"]
    return bool(times and times["missed"] + times["invalid"] == COUNT)


def times(found: dict[str, Any], *names: str) -> list[Any]:
    """Return what is said of times."""
    return [found["txtime"][name] for name in names]


def all_came(sent: dict[str, Any], came: dict[str, Any]) -> None:
    """Check that each packet came once, and that none was dropped for its time."""
    assert (sent["sent"], sent["unsent"], came["distinct"]) == (COUNT, 0, COUNT), (sent, came)
    assert times(sent, "missed", "invalid", "lead_ns") == [0, 0, LEAD_NS], sent


def fq(binary: str) -> None:
    """A packet leaves at its time, and not before: its stamp says when that is."""
    lay_out("fq")
    for to, options in ((FOUR, ()), (SIX, ("--flows", "3", "--batch", "4"))):
        sent, came, _ = exchange(binary, to, "--txtime", "--lead", LEAD, *options)
        all_came(sent, came)
        assert times(sent, "by", "clock") == ["fq", "monotonic"], sent
        # Of those that leave at once most would come tens of milliseconds before their stamp.
        assert (came["delay"]["count"], came["delay"]["negative"]) == (COUNT, 0), came
    without, came, _ = exchange(binary, FOUR)
    assert without["txtime"] is None
    assert came["delay"]["negative"] == 0, came


def etf(binary: str) -> None:
    """It has them by another clock, and lets them go a while before."""
    lay_out(*ETF, str(DELTA_NS))
    for to in (FOUR, SIX):
        sent, came, _ = exchange(binary, to, "--txtime", "--lead", LONGER_LEAD)
        assert times(sent, "by", "clock") == ["etf", "tai"], sent
        # A machine that stands still for longer has some dropped: it tells of each. One that others
        # use as well has had most of them dropped.
        [missed, invalid] = times(sent, "missed", "invalid")
        assert sent["unsent"] == invalid, sent
        assert came["distinct"] == sent["sent"] - missed > COUNT // 10, (sent, came)
        assert came["delay"]["negative"] > 0, came


def dropped(binary: str) -> None:
    """A time that is over when etf gets the packet, or when it may leave."""
    lay_out(*ETF, str(DELTA_NS))
    sent, came, words = exchange(binary, FOUR, "--txtime", "--lead", "1ns")
    assert (sent["unsent"], came["distinct"]) == (COUNT, 0), (sent, came)
    assert sent["errors"] == {"ENOBUFS": COUNT}, sent
    assert times(sent, "missed", "invalid") == [0, COUNT], sent
    assert f"etf dropped 0 packets that missed their times and {COUNT} that it got" in words, words
    # It cannot be changed.
    run("tc", "-n", NEAR, "qdisc", "del", "dev", "v0", "root")
    keep_by(*ETF, "0")
    sent, came, words = exchange(binary, SIX, "--txtime", "--lead", LEAD)
    # Those that were late already are invalid; of all others the time is over when it comes.
    assert times(sent, "missed", "invalid") == [sent["sent"], sent["unsent"]], sent
    assert (sent["sent"] > 0, came["distinct"]) == (True, 0), (sent, came)
    assert "or etf a longer delta" in words, words


def without(binary: str) -> None:
    """No queue discipline keeps times: that is refused, or warned of if one is named."""
    lay_out()
    command = ["ip", "netns", "exec", NEAR, binary, "send", "--to", FOUR, "--rate", "1000"]

    def said(*options: str) -> tuple[int, str]:
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        lines: Sequence[str] = done.stderr.splitlines()
        return done.returncode, lines[0]

    status, line = said("--txtime")
    assert status == 2, line
    assert "the queue discipline of v0 is noqueue, which keeps no times; expected fq or" in line
    status, line = said("--count", "1", "--txtime", "fq")
    assert (status, "unless a device below has fq" in line) == (0, True), line


ALL = (fq, etf, dropped, without)
CASES = {case.__name__: case for case in ALL}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in CASES:
        sys.exit(f"usage: txtime.py SKBLAB-TRAFFIC-BINARY {'|'.join(CASES)}")
    # It may lie below what is covered.
    program = Path(tempfile.mkdtemp()) / "skblab-traffic"
    program.write_bytes(Path(sys.argv[1]).read_bytes())
    program.chmod(0o755)
    try:
        CASES[sys.argv[2]](str(program))
    finally:
        program.unlink()
        program.parent.rmdir()
    sys.stdout.write(f"ok {sys.argv[2]}\n")
