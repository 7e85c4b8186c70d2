# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab traffic run` for real: the LUNA study's files, short, here and in a guest."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import schema_checks

from conftest import TREE, Skblab, links
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab_analysis.load import load
from skblab_analysis.tcp.rows import TcpRow
from skblab_analysis.traffic.rows import FlowTimesRow
from skblab_analysis.traffic.summary import of
from waiting import PATIENCE, until

STUDIES = TREE / "runners" / "studies"
# Both directions at once, and a third host beside them.
FILE = """
name = "three-hosts"
question = "Do all flows run at once?"
repeats = 1
[[flow]]
name = "there"
from = "a"
to = "b"
rate = 500
seconds = 1
[[flow]]
name = "back"
from = "b"
to = "a"
family = 6
rate = 500
frame = 200
seconds = 1
[[flow]]
name = "aside"
from = "c"
to = "b"
port = 5001
rate = 500
seconds = 1
"""


def processes(text: str) -> list[str]:
    """Return the command lines with a text in them, but for our own."""
    listed = subprocess.run(
        ["ps", "-wwe", "-o", "args="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if text in line and "ps -wwe" not in line]


@pytest.mark.labroot
def test_the_study_of_inter_arrival_times_runs_here(
    skblab: Skblab, lab: LabRoot, tmp_path: Path
) -> None:
    before = links()
    done = skblab(
        *("traffic", "run", str(STUDIES / "luna-2013.toml"), "--seconds", "1", "--repeats", "1"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert links() == before
    [folder] = tmp_path.iterdir()
    run = load(folder)
    assert run.document.state == "finished"
    schema_checks.folder_fits(folder)
    assert {row.state for row in run.trials} == {"good"}
    [flow] = of(run)
    assert len(flow.exchanges) == 7
    for exchange in flow.exchanges:
        assert (exchange.lost, exchange.sent, len(exchange.trials)) == (0, 1000, 1)
        # By one clock, and in the order in which they were sent.
        assert exchange.times["delay"].least > 0
        # Behind their times or not: the sender makes up for what others took of its time.
        assert 0.8e6 < exchange.times["inter_arrival"].mean < 2e6
    assert done.stdout.count("  published") == 6
    assert (folder / "report" / "index.html").exists()


@pytest.mark.labroot
def test_flows_of_several_hosts_run_at_once(lab: LabRoot, tmp_path: Path) -> None:
    file = tmp_path / "three-hosts.toml"
    # Ports of no other test, and long enough to be looked at.
    text = FILE.replace("port = 5001\n", "").replace("seconds = 1", "seconds = 3\nport = 58")
    for number in range(3):
        text = text.replace("port = 58\n", f"port = 581{number}\n", 1)
    file.write_text(text)
    results = tmp_path / "results"
    process = subprocess.Popen(
        [str(TREE / "skblab"), "traffic", "run", str(file), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SKBLAB_RESULTS": str(results)},
    )
    sending = re.compile(r" send .*:581\d ")

    def at_once() -> bool:
        return len(list(filter(sending.search, processes(":581")))) == 3

    try:
        until("three senders at once", 300, lambda: at_once() or process.poll() is not None)
        together = at_once()
    finally:
        printed, said = process.communicate(timeout=600)
    assert process.returncode == 0, printed + said
    assert together
    schema_checks.fits("summary", json.loads(printed))
    [folder] = results.iterdir()
    run = load(folder)
    assert [(row.traffic, row.sent, row.lost) for row in run.trials] == [
        ("there", 1500, 0),
        ("back", 1500, 0),
        ("aside", 1500, 0),
    ]
    assert len({row.traffic for row in run.rows(FlowTimesRow)}) == 3


@pytest.mark.labroot
def test_frames_of_devices_beside_udp_sockets(skblab: Skblab, lab: LabRoot, tmp_path: Path) -> None:
    def asked(name: str) -> str:
        return f'[[setting]]\nname = "{name}"\nflow = {{ sockets = "{name}" }}\n'

    # A device has one socket of AF_XDP: that takes a file with one flow.
    all_at_once, one = tmp_path / "all.toml", tmp_path / "one.toml"
    all_at_once.write_text(FILE + asked("udp") + asked("packet"))
    one.write_text(FILE[: FILE.index('[[flow]]\nname = "back"')] + asked("udp") + asked("xdp"))
    for file, flows in ((all_at_once, 3), (one, 1)):
        results = tmp_path / file.stem
        done = skblab("traffic", "run", str(file), env={"SKBLAB_RESULTS": str(results)})
        assert done.returncode == 0, done.stdout + done.stderr
        [folder] = results.iterdir()
        run = load(folder)
        assert {row.state for row in run.trials} == {"good"}
        arrived = {(row.setting, row.traffic): (row.sent, row.lost) for row in run.trials}
        assert len(arrived) == 2 * flows
        assert set(arrived.values()) == {(500, 0)}, arrived


@pytest.mark.labroot
def test_tcp_of_all_kinds_runs_beside_packets(skblab: Skblab, lab: LabRoot, tmp_path: Path) -> None:
    kinds = {
        "new": 'kind = "connections"\nconnections = 4\nport = 5820\nclose = "client"',
        "kept": 'kind = "requests"\nrate = 200\nport = 5821\nfamily = 6\nrequest = 100',
        "data": 'kind = "stream"\nconnections = 2\nport = 5822\nwrite = 10000',
        "back": 'kind = "stream"\nreverse = true\nport = 5823',
    }
    file = tmp_path / "tcp.toml"
    file.write_text(
        'name = "tcp"\nquestion = "Do they run at once?"\nrepeats = 1\n'
        '[[flow]]\nname = "udp"\nfrom = "a"\nto = "b"\nport = 5820\nrate = 100\nseconds = 1\n'
        + "".join(
            f'[[tcp]]\nname = "{name}"\nfrom = "a"\nto = "b"\nseconds = 1\n{keys}\n'
            for name, keys in kinds.items()
        )
        + '[[setting]]\nname = "small"\n[[setting]]\nname = "patient"\ntcp = { timeout = 9 }\n'
    )
    results = tmp_path / "results"
    before = links()
    done = skblab("traffic", "run", str(file), env={"SKBLAB_RESULTS": str(results)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert links() == before
    [folder] = results.iterdir()
    schema_checks.folder_fits(folder)
    run = load(folder)
    assert {row.state for row in run.trials} == {"good"}, [row.reason for row in run.trials]
    rows = {(row.traffic, row.setting): row for row in run.rows(TcpRow)}
    assert len(rows) == len(kinds) * 2
    for setting in ("small", "patient"):
        new, kept, data, back = (rows[name, setting] for name in kinds)
        assert (new.kind, kept.kind, data.kind, back.kind) == (
            *("connections", "requests", "stream", "stream"),
        )
        assert all(row.failed == 0 and row.reached for row in (new, kept, data, back))
        # A request is due each 5 ms, for a second.
        assert 190 <= kept.completed <= 201
        assert data.completed == 2 and data.received_bytes and data.segments
    times = {(row.traffic, row.kind) for row in run.rows(FlowTimesRow)}
    assert {("new", "connect"), ("kept", "since_due"), ("data", "rtt"), ("udp", "delay")} <= times
    assert [row.sent for row in run.trials if row.traffic == "udp"] == [100, 100]
    for title in ("TCP connections (new)", "TCP requests (kept)", "TCP stream (data)"):
        assert title in done.stdout


@pytest.mark.labroot
def test_what_a_sender_cannot_send_is_not_lost(
    skblab: Skblab, lab: LabRoot, tmp_path: Path
) -> None:
    # About half of these are larger than the link carries.
    file = tmp_path / "large.toml"
    file.write_text(
        'name = "large"\nquestion = "Where are they?"\nrepeats = 1\n[[flow]]\nname = "mixed"\n'
        'from = "a"\nto = "b"\nrate = 500\nsize = "uniform:16,3000"\nseconds = 1\n'
    )
    results = tmp_path / "results"
    done = skblab("traffic", "run", str(file), env={"SKBLAB_RESULTS": str(results)})
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    [trial] = load(folder).trials
    assert (trial.lost, trial.dropped) == (0, 0)
    assert trial.unsent is not None and 150 < trial.unsent < 350
    assert (trial.sent, trial.received) == (500 - trial.unsent,) * 2
    assert "not sent" in done.stdout


@pytest.mark.labroot
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_nothing_stays_behind(lab: LabRoot, tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "few.toml"
    # Of no other test.
    file.write_text(FILE.replace("5001", "5999").replace("seconds = 1", "seconds = 30"))
    results = tmp_path / "results"
    before = links()
    process = subprocess.Popen(
        [str(TREE / "skblab"), "traffic", "run", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SKBLAB_RESULTS": str(results)},
    )
    try:
        # Its senders have begun.
        until("sending", 300, lambda: any(" send " in line for line in processes(":5999 ")))
    finally:
        process.send_signal(how)
        process.communicate()
    until("nothing of it runs", PATIENCE, lambda: processes(":5999 ") == [])
    assert links() == before
    [folder] = results.iterdir()
    # What was recorded can be read, and says how it ended where it could.
    assert load(folder).document.state == ("running" if how == signal.SIGKILL else "failed")


@pytest.mark.guest
@pytest.mark.slow
def test_kernels_are_compared_in_guests(
    skblab: Skblab, stock: Kernel, tmp_path: Path, full: bool
) -> None:
    text = (STUDIES / "luna-2013-kernels.toml").read_text()
    if not full:
        # Without the half hour that a real-time kernel takes to build.
        text = text.replace('"rt"', '"stock"')
    (tmp_path / "published").mkdir()
    published = "published/klute-2013.csv"
    (tmp_path / published).write_text((STUDIES / published).read_text())
    file = tmp_path / "luna-2013-kernels.toml"
    file.write_text(text)
    results = tmp_path / "results"
    done = skblab(
        *("traffic", "run", str(file), "--seconds", "2", "--repeats", "1"),
        env={"SKBLAB_RESULTS": str(results)},
        timeout=7000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    run = load(folder)
    [flow] = of(run)
    assert [(exchange.lost, exchange.sent) for exchange in flow.exchanges] == [(0, 2000)] * 3
    assert run.document.environment is not None
    assert run.document.environment.kernel.release == stock.release


@pytest.mark.labroot
@pytest.mark.slow
def test_the_study_of_rates_runs_here(skblab: Skblab, lab: LabRoot, tmp_path: Path) -> None:
    done = skblab(
        *("traffic", "run", str(STUDIES / "luna-2013-rate.toml"), "--seconds", "1"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = tmp_path.iterdir()
    [flow] = of(load(folder))
    assert not flow.by_time
    assert all(exchange.receive_rate for exchange in flow.exchanges)


@pytest.mark.guest
@pytest.mark.slow
def test_pktgen_and_our_own_sender_are_compared_in_a_guest(
    skblab: Skblab, stock: Kernel, tmp_path: Path
) -> None:
    file = STUDIES / "turull-2010-rate.toml"
    done = skblab(
        *("traffic", "run", str(file), "--seconds", "1", "--repeats", "1"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=3000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "asked/s" in done.stdout
    [folder] = tmp_path.iterdir()
    run = load(folder)
    schema_checks.folder_fits(folder)
    assert run.document.environment is not None
    assert run.document.environment.kernel.release == stock.release
    assert {row.state for row in run.trials} == {"good"}
    [flow] = of(run)
    assert len(flow.exchanges) == 20
    for exchange in flow.exchanges:
        [trial] = exchange.trials
        # pktgen does not know how late it was, and our own sender always does.
        assert (trial.late is None) == ("pktgen" in exchange.setting or exchange.rate is None)
        # Its packets carry its stamps, by the clock that the receiver has.
        assert {"inter_arrival", "jitter", "delay"} <= exchange.times.keys()
        if exchange.rate is not None:
            assert exchange.sent == exchange.rate
            assert "inter_arrival_error" in exchange.times
            assert exchange.off is not None
