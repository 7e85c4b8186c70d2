# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP by `skblab traffic`: what it prints, what it says of trouble, and its page.

Over loopback and against what is no server of ours: runners/traffic/tests/tcp.rs. Through NAT:
stock/test_traffic_nat.py.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from schema_checks import fits

from conftest import TREE, Skblab
from skblab.lab import tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.checked import parse
from skblab_analysis.formats.tcp import TcpExchangeDocument, TcpServeDocument, TcpStreamDocument
from waiting import until

pytestmark = pytest.mark.labroot

PAGE = TREE / "docs" / "reference" / "traffic-tcp.md"
# A server, and what is done with it, in a network of its own.
SERVED = """
ip link set lo up
"$1" tcp-serve --bind {bind} >"$2/serve.json" 2>"$2/said" &
until grep -q ready "$2/said"; do sleep 0.05; done
{commands}
kill $!
wait $!
"""
COMMANDS = """
"$1" tcp-crr --to 127.0.0.1:5000 --count 300 --flows 9 --close reset >"$2/crr.json"
"$1" tcp-rr --to 127.0.0.1:5000 --count 300 --interval poisson:200us --realtime fifo:1 >"$2/rr.json"
"$1" tcp-stream --to 127.0.0.1:5000 --count 50 --flows 2 >"$2/stream.json"
"$1" tcp-stream --to 127.0.0.1:5000 --seconds 0.2 --reverse >"$2/reverse.json"
"""


@pytest.fixture(scope="module")
def program(lab: LabRoot) -> str:
    return str(tools.ensure_traffic(lab, Reporter()) / "skblab-traffic")


def run(script: str, program: str, folder: Path) -> dict[str, dict[str, Any]]:
    call = ["unshare", "--net", "sh", "-euc", script, "sh", program, str(folder)]
    subprocess.run(call, check=True, timeout=120)
    return {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}


def test_what_is_printed_has_a_schema(program: str, tmp_path: Path) -> None:
    found = run(SERVED.format(bind="127.0.0.1:5000", commands=COMMANDS), program, tmp_path)
    for name, model, schema in (
        ("crr", TcpExchangeDocument, "exchange"),
        ("rr", TcpExchangeDocument, "exchange"),
        ("stream", TcpStreamDocument, "stream"),
        ("reverse", TcpStreamDocument, "stream"),
        ("serve", TcpServeDocument, "serve"),
    ):
        parse(model, (tmp_path / f"{name}.json").read_text(), name)
        fits(f"traffic-tcp-{schema}", found[name])
    assert found["crr"]["transactions"]["completed"] == 300
    assert found["rr"]["process"]["realtime"] == "fifo 1"
    assert found["rr"]["process"]["major_faults"] == 0
    # The mean of 300 exponential times, of this seed's always.
    assert found["rr"]["rate_planned"] == pytest.approx(5000, rel=0.2)
    assert found["stream"]["received_bytes"] == 50 * (128 << 10)
    assert found["reverse"]["received_bytes"] == found["reverse"]["sent_bytes"] > 0
    assert found["serve"]["accepted"] == 300 + 1 + 2 + 1


def test_what_no_port_is_left_for_is_counted(program: str, tmp_path: Path) -> None:
    """Of four ports, with ends that wait for a minute at the client; at the server they do not."""
    few = "sysctl -q -w net.ipv4.ip_local_port_range='40000 40003' net.ipv4.tcp_tw_reuse=0"
    asked = '"$1" tcp-crr --to 127.0.0.1:5000 --count 20'
    commands = f'{few}\n{asked} --close client >"$2/client.json"\n{asked} >"$2/server.json"'
    # The first one leaves no port for the second, but from another address.
    commands += ' --from 127.0.0.2 2>"$2/warned"'
    found = run(SERVED.format(bind="127.0.0.1:5000", commands=commands), program, tmp_path)
    client, server = found["client"], found["server"]
    assert client["transactions"] == {
        "attempted": 20,
        "completed": 4,
        "failed": 16,
        "unfinished": 0,
    }
    assert client["errors"]["connect"] == {"EADDRNOTAVAIL": 16}
    assert server["transactions"]["completed"] == 20


def test_trouble_is_one_line(program: str) -> None:
    refused = "no connection to 127.0.0.1:9: ECONNREFUSED; does tcp-serve run there?"
    for words, status, told in (
        (("tcp-crr", "--to", "127.0.0.1:9"), 1, refused),
        (("tcp-rr", "--to", "127.0.0.1:9", "--flows", "9"), 1, refused),
        (("tcp-stream", "--to", "127.0.0.1:9"), 1, refused),
        (("tcp-crr", "--to", "127.0.0.1:9", "--from", "192.0.2.1"), 1, "addresses of --from?"),
        (("tcp-crr", "--to", "[::1]:9", "--from", "192.0.2.1"), 2, "--from 192.0.2.1 is of IPv4"),
        (("tcp-crr", "--to", "127.0.0.1:9", "--strict-rate"), 2, "give --rate"),
        (("tcp-crr", "--to", "127.0.0.1:9", "--request", "8"), 2, "bytes, 16 to 16777216"),
        (("tcp-crr", "--to", "127.0.0.1:9", "--from", "9"), 2, "expected an address, or two"),
        (("tcp-stream", "--to", "127.0.0.1:9", "--rate", "fast"), 2, "such as 500k, 10M or 1.5G"),
        (("tcp-serve", "--bind", "192.0.2.9:9"), 2, "no interface here has this address"),
        (("tcp-serve",), 2, "--bind <ADDR:PORT>"),
    ):
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
        assert told in done.stderr
        # What ran has a report, whatever came of it.
        assert bool(done.stdout) == (status == 1)


def test_where_no_answer_comes_all_has_failed(run_skblab: Skblab) -> None:
    """The kernel makes connections, and nobody takes them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        to = f"127.0.0.1:{server.getsockname()[1]}"
        for name in ("tcp-crr", "tcp-rr", "tcp-stream"):
            done = run_skblab("traffic", name, "--to", to, "--count", "1", "--timeout", "0.2")
            told = "skblab-traffic: 1 of 1 failed: 1 ETIMEDOUT (requests)\n"
            assert (done.returncode, done.stderr) == (1, told)
            assert json.loads(done.stdout)["stopped_by"] == "count"


def test_a_signal_gives_the_figures_so_far(program: str, tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        serving = subprocess.Popen(
            [program, "tcp-serve", "--bind", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=said,
        )
    try:
        until("ready", 60, lambda: "ready" in (tmp_path / "said").read_text())
    finally:
        serving.send_signal(signal.SIGINT)
        printed, _ = serving.communicate(timeout=60)
    assert serving.returncode == 0
    document = parse(TcpServeDocument, printed.decode(), "the server's document")
    assert (document.accepted, document.stopped_by) == (0, "signal")


def test_the_pages_commands_work(program: str, tmp_path: Path) -> None:
    """Those of its first example, with less of each."""
    lines = [line.strip() for line in PAGE.read_text().splitlines()]
    commands = [line for line in lines if line.startswith("./skblab traffic tcp-")]
    assert [line.split()[2] for line in commands[:4]] == [
        *("tcp-serve", "tcp-crr", "tcp-rr", "tcp-stream")
    ]
    texts = []
    for line in commands[1:4]:
        words = shlex.split(re.sub(r"--seconds \d+", "--seconds 0.3", line))[2:]
        words[words.index("--to") + 1] = "127.0.0.1:5000"
        texts.append(f'"$1" {shlex.join(words)} >"$2/{words[0]}.json"')
    found = run(SERVED.format(bind="127.0.0.1:5000", commands="\n".join(texts)), program, tmp_path)
    assert found["serve"]["failed"] == 0
    for name in ("tcp-crr", "tcp-rr"):
        assert found[name]["transactions"]["completed"] > 0
    assert found["tcp-stream"]["received_bytes"] > 0
