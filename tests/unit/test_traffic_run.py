# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic files: what is said of bad ones, which commands flows are, and trials of made-up ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tcp import exchange, serve
from pydantic import ValidationError
from typer.testing import CliRunner

from conftest import TREE
from skblab.cli import app
from skblab.machine.environment import describe_host
from skblab.machine.transport import Running, Transport
from skblab.machine.transport.base import Done
from skblab.traffic import bypktgen, ends, generators, hosts, running
from skblab.traffic.ends import Head
from skblab.traffic.flow import Flow
from skblab.traffic.hosts import Host, Hosts
from skblab.traffic.plan import Setting, TrafficFile, changed, read
from skblab.traffic.tcp import TcpFlow
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.run import Environment, Kernel
from skblab_analysis.traffic.rows import Exchanged

STUDIES = sorted(
    file
    for name in ("luna", "turull")
    for file in (TREE / "runners" / "studies").glob(f"{name}-*.toml")
)
FLOW: dict[str, Any] = {"name": "one way", "from": "a", "to": "b", "rate": 1000, "seconds": 2}
FILE = """
name = "few"
question = "Does it matter?"
repeats = 2
[[flow]]
name = "one way"
from = "a"
to = "b"
rate = 1000
seconds = 2
[[setting]]
name = "as it stands"
[[setting]]
name = "real time"
flow = { realtime = "fifo:50" }
"""


def flow(**more: object) -> Flow:
    return Flow.model_validate(FLOW | more)


def host(name: str, number: int) -> Host:
    return Host(
        name,
        cast(Transport, None),
        f"/{name}/skblab-traffic",
        {4: f"192.0.2.{number}", 6: "2001:db8::2"},
        "eth0",
        f"02:00:00:00:01:0{number}",
    )


def written(tmp_path: Path, text: str = FILE) -> Path:
    file = tmp_path / "few.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_shipped_studies_can_be_read_and_told(file: Path) -> None:
    found, published = read(file)
    assert found.name == file.stem
    assert {one.published for one in found.setting if one.published} <= set(published)
    done = CliRunner().invoke(app, ["traffic", "run", str(file), "--dry-run"])
    assert done.exit_code == 0, done.exception
    lines = done.stdout.splitlines()
    kinds = Counter(line.split()[0] for line in lines[:-1])
    assert kinds == {"flow": len(found.flow), "setting": len(found.setting)}
    assert lines[-1].startswith(f"{found.repeats * len(found.setting)} trials, about ")


def test_the_study_of_pktgen_has_each_rate_by_all_that_send() -> None:
    found, _ = read(TREE / "runners" / "studies" / "turull-2010-rate.toml")
    ways: dict[int | None, list[tuple[str, bool]]] = {}
    for setting in found.setting:
        made = changed(found.flow[0], setting)
        ways.setdefault(made.rate, []).append((made.by, made.ratep))
    fastest = ways.pop(None)
    assert fastest == [("skblab-traffic", False), ("pktgen", False)]
    assert sorted(rate for rate in ways if rate) == [10, 100, 1000, 10_000, 30_000, 70_000]
    assert set(map(tuple, ways.values())) == {
        (("skblab-traffic", False), ("pktgen", False), ("pktgen", True))
    }


def test_a_flow_is_a_receiver_and_a_sender() -> None:
    found = ends.ends(flow(), host("a", 1), host("b", 2), "one")
    assert " ".join(found.receiver) == (
        "/b/skblab-traffic receive --bind 192.0.2.2:5000 --expect 2000 --interval 1000000.000ns "
        "--idle 1.002 --seconds 122 --rcvbuf 16777216 --same-clock"
    )
    assert " ".join(found.sender) == (
        "/a/skblab-traffic send --to 192.0.2.2:5000 --seconds 62 --count 2000 --rate 1000 "
        "--flows 1 --batch 1 --spin 0 --seed 1"
    )


@pytest.mark.parametrize(
    ("more", "sender", "receiver"),
    [
        ({"rate": None}, "--seconds 2 --flows", "--idle 1 --seconds 62"),
        ({"rate": None, "interval": "poisson:1ms"}, "--interval poisson:1ms", "--idle 1.02 "),
        ({"rate": None, "interval": "20us"}, "--interval 20us", "--interval 20us"),
        ({"family": 6, "port": 7}, "--to [2001:db8::2]:7", "--bind [2001:db8::2]:7"),
        ({"realtime": "fifo:50", "cpu": 1}, "--realtime fifo:50 --cpu 1", "--same-clock"),
        ({"receiver_realtime": "rr:2", "receiver_cpu": 0}, "--seed 1", "--realtime rr:2 --cpu 0"),
        ({"batch": 64, "segment": True}, "--batch 64 --spin 0 --seed 1 --segment", ""),
        ({"frame": 64}, "--frame 64", ""),
        ({"size": "uniform:16,1400"}, "--size uniform:16,1400", ""),
    ],
    ids=str,
)
def test_keys_of_a_flow_are_options_of_its_ends(
    more: dict[str, object], sender: str, receiver: str
) -> None:
    found = ends.ends(flow(**more), host("a", 1), host("b", 2), "one")
    assert sender in " ".join(found.sender)
    assert receiver in " ".join(found.receiver)


@pytest.mark.parametrize(
    ("more", "idle"),
    [
        ({"rate": 1}, 3.0),
        ({"interval": "2s", "seconds": 100}, 41.0),
        # No time between packets is longer than the flow.
        ({"interval": "2s", "seconds": 7}, 8.0),
        ({"interval": "gaussian:100ms,.5s", "seconds": 60}, 11.0),
        ({"interval": "burst:10,1ms"}, 1.02),
        ({"interval": "1e3ms", "seconds": 60}, 21.0),
        ({"interval": "mix:1ms*9,100ms*1", "seconds": 60}, 3.0),
        ({"interval": "pareto:1ms,2", "seconds": 60}, 61.0),
        ({"interval": "file:10ms.txt", "seconds": 60}, 61.0),
    ],
    ids=str,
)
def test_a_receiver_waits_longer_than_lies_between_packets(
    more: dict[str, object], idle: float
) -> None:
    sent_so = {"rate": None} | more
    found = ends.ends(flow(**sent_so), host("a", 1), host("b", 2), "one")
    assert float(found.receiver[found.receiver.index("--idle") + 1]) == pytest.approx(idle)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "size=58 flows=1 count=2000 limit=62 gap=1000000"),
        ({"ratep": True}, "size=58 flows=1 count=2000 limit=62 ratep=1000"),
        # The study's rounding: no whole time is a third of a second.
        ({"rate": 3}, "count=6 limit=62 gap=333333333"),
        ({"rate": None}, "size=58 flows=1 limit=2"),
        ({"frame": 64, "cpu": 1, "flows": 5}, "size=60 flows=5 cpu=1 count=2000"),
        ({"size": 100}, "size=142 flows=1"),
        ({"size": 100, "family": 6}, "size=162 flows=1"),
        ({"port": 7}, "port=7"),
    ],
    ids=str,
)
def test_pktgen_sends_from_its_hosts_port(more: dict[str, object], words: str) -> None:
    asked = flow(by="pktgen", **more)
    found = ends.ends(asked, host("a", 1), host("b", 2), "one")
    begins = ["env", "GENERATOR=a", "sh", hosts.BY_PKTGEN, "device=eth0", "mac=02:00:00:00:01:02"]
    assert found.sender[: len(begins)] == begins
    assert words in " ".join(found.sender)
    source, target = ("2001:db8::2",) * 2 if asked.family == 6 else ("192.0.2.1", "192.0.2.2")
    assert {f"family={asked.family}", f"from={source}", f"to={target}"} <= set(found.sender)
    # It is for no socket: what would answer it is the stack.
    assert "--device eth0" in " ".join(found.receiver)


@pytest.mark.parametrize(("sockets", "xdp"), [("packet", False), ("xdp", True)])
def test_frames_are_of_both_hosts_ports(sockets: str, xdp: bool) -> None:
    found = ends.ends(flow(sockets=sockets, batch=64), host("a", 1), host("b", 2), "one")
    assert "--device eth0 --mac 02:00:00:00:01:02 --from 192.0.2.1" in " ".join(found.sender)
    assert "--device eth0" in " ".join(found.receiver)
    assert ("--xdp" in found.sender, "--xdp" in found.receiver) == (xdp, xdp)
    plain = ends.ends(flow(), host("a", 1), host("b", 2), "one")
    assert not {"--device", "--xdp"} & {*plain.sender, *plain.receiver}


def test_all_that_pktgen_is_asked_for_are_words_of_the_generator(tmp_path: Path) -> None:
    asked = flow(by="pktgen", frame=64, cpu=0)
    argv = ends.ends(asked, host("a", 1), host("b", 2), "one").sender
    file = tmp_path / "by-pktgen"
    file.write_text(f'nsenter() {{ shift; "$@"; }}\n{hosts.by_pktgen()}')
    # It knows all of them, and finds no pktgen.
    done = subprocess.run(
        ["sh", str(file), *argv[4:]],
        env=os.environ | {"PKTGEN": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "this kernel has no pktgen" in done.stderr


def test_generators_are_those_of_the_program() -> None:
    cases = (TREE / "runners" / "traffic" / "tests" / "generators.txt").read_text().splitlines()
    for line in cases:
        if line.startswith("#"):
            continue
        unit, is_one, text = line.split(" ", 2)
        try:
            generators.parse(text, cast(generators.Unit, unit))
        except ValueError as why:
            assert is_one == "no", line
            assert "expected" in str(why) or "there are" in str(why)
        else:
            assert is_one == "yes", line


@given(st.text(alphabet="0123456789.:,*-+eE_unmsifqop", max_size=30), st.booleans())
def test_any_text_is_a_generator_or_one_line(text: str, time: bool) -> None:
    try:
        found = generators.parse(text, "time" if time else "bytes")
    except ValueError as why:
        assert "\n" not in str(why)
    else:
        assert found.kind in generators.FORMS


def test_kinds_of_generators_are_the_programs() -> None:
    source = TREE / "runners" / "traffic" / "src" / "generator"
    told = "".join(file.read_text() for file in sorted(source.glob("*.rs")))
    assert dict(re.findall(r'name: "(\w+)",\s+form: "(.+)",', told)) == generators.FORMS


def test_what_is_sent_is_told_whichever_size_is_given() -> None:
    assert "payloads of 16 bytes" in str(flow())
    assert "payloads of 99 bytes" in str(flow(size=99))
    assert "frames of 64 bytes" in str(flow(frame=64))


def test_what_pktgen_says_is_a_senders_document() -> None:
    found = bypktgen.document("1001 3 2000000\n")
    # A thousand times between packets in two seconds.
    assert (found.sent, found.unsent, found.rate_reached, found.late) == (1001, 3, 500.0, None)
    assert bypktgen.document("1 0 10").rate_reached is None
    with pytest.raises(SkblabError, match="pktgen printed 'none': expected packets sent"):
        bypktgen.document("none")


def test_of_machines_with_clocks_of_their_own_no_delay_is_asked_for() -> None:
    found = ends.ends(flow(), host("a", 1), host("b", 2), "apart")
    assert "--same-clock" not in found.receiver


def test_a_setting_takes_the_place_of_what_it_excludes() -> None:
    with_interval = changed(flow(), Setting(name="x", flow={"interval": "poisson:1ms"}))
    assert (with_interval.rate, with_interval.interval) == (None, "poisson:1ms")
    assert changed(flow(size=100), Setting(name="x", flow={"frame": 64})).size is None
    assert changed(flow(), Setting(name="x")) == flow()


def test_each_block_has_all_settings_in_an_order_of_its_seed() -> None:
    settings = [{"name": str(number)} for number in range(9)]
    made = {"name": "few", "question": "?", "flow": [FLOW], "setting": settings, "repeats": 4}
    file = TrafficFile.model_validate(made)
    trials = [(block, setting.name) for block, setting in file.trials()]
    assert trials == [(block, setting.name) for block, setting in file.trials()]
    blocks = [[name for block, name in trials if block == number] for number in range(4)]
    assert all(sorted(block) == [setting["name"] for setting in settings] for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1


def test_settings_of_a_kernel_come_after_one_another() -> None:
    kernels = ["stock", "rt"] * 4
    settings = [{"name": f"{n}", "kernel": kernel} for n, kernel in enumerate(kernels)]
    made = {"name": "few", "question": "?", "flow": [FLOW], "setting": settings, "where": "guest"}
    order = [(block, one.kernel) for block, one in TrafficFile.model_validate(made).trials()]
    changes = sum(one != other for one, other in pairwise(order))
    assert changes == 2 * 3 - 1


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "rate = 1000",
            'rate = 1000\ninterval = "1ms"',
            "rate and interval: expected one of them (`rate` is",
        ),
        (
            "rate = 1000",
            "frame = 64\nsize = 20",
            "frame and size: expected one of them (`frame` counts",
        ),
        ('to = "b"', 'to = "a"', "from and to are 'a': expected two hosts"),
        ('from = "a"', 'from = "a/../b"', "'a/../b': expected at most 15 of a-z, 0-9 and -"),
        ('name = "one way"', 'name = "one|way"', "'one|way': expected at most 40 of"),
        ("rate = 1000", 'interval = "1 s"', "'1 s': expected a time or a generator of times"),
        ("rate = 1000", 'interval = "potato:1ms"', "9: flow.0.interval: potato: no such generator"),
        ("rate = 1000", 'interval = "burst:3"', "burst:3: there is one number; expected burst:"),
        ("rate = 1000", "frame = 20", "9: flow.0.frame: 20: expected 62 to 65553 bytes with IPv4"),
        ("rate = 1000", 'frame = "20"', "flow.0.frame: 20: expected 62 to 65553 bytes with IPv4"),
        ("rate = 1000", "frame = 81\nfamily = 6", "81: expected 82 to 65593 bytes with IPv6"),
        ("rate = 1000", "size = 15", "flow.0.size: 15: expected 16 to 65507 bytes with IPv4"),
        ("rate = 1000", "size = 65508", "flow.0.size: 65508: expected 16 to 65507 bytes"),
        ("rate = 1000", 'size = "burst:3,1ms"', "a burst is of intervals, not of sizes"),
        ("rate = 1000", 'size = "uniform:9,1"', "uniform:9,1: LEAST is above MOST; expected uni"),
        ("rate = 1000", "rate = 4294967296", "less than or equal to 4294967295"),
        (
            "rate = 1000",
            'segment = true\nsize = "uniform:16,99"',
            "segment: expected one number of bytes as size or frame",
        ),
        (
            "rate = 1000",
            'segment = true\nsockets = "xdp"',
            'segment with sockets = "xdp": expected one of them',
        ),
        (
            "rate = 1000",
            'rate = 1000\nsockets = "xdp"\n'
            '[[flow]]\nname = "back"\nfrom = "b"\nto = "a"\nsockets = "xdp"',
            "'as it stands': two flows have AF_XDP at 'a': expected one at most",
        ),
        ("rate = 1000", 'by = "pktgen"\nsockets = "xdp"', 'sockets with by = "pktgen": expected'),
        (
            "repeats = 2",
            'repeats = 2\n[hosts]\na = { ssh = "a", address = ["192.0.2.1"], device = "eth1" }\n'
            'b = { ssh = "b", address = ["192.0.2.2"], device = "eth1" }\n'
            '[[setting]]\nname = "frames"\nflow = { sockets = "packet" }',
            "sockets = \"packet\" takes frames of devices: expected mac of 'b' in [hosts]",
        ),
        (
            "repeats = 2",
            'repeats = 2\n[hosts]\na = { ssh = "a", address = ["192.0.2.1"], device = "eth1" }\n'
            'b = { ssh = "b", address = ["192.0.2.2"], mac = "02:00:00:00:00:0g" }',
            "mac",
        ),
        ('{ realtime = "fifo:50" }', "{ frame = 20 }", "'real time': flow.frame: "),
        ("rate = 1000", 'realtime = "fifo:100"', "'fifo:100': expected fifo:PRIORITY"),
        ('{ realtime = "fifo:50" }', '{ realtime = "fifo:0" }', "'real time': flow.realtime: "),
        ('{ realtime = "fifo:50" }', "{ speed = 1 }", "'real time': flow.speed: Extra inputs"),
        ('{ realtime = "fifo:50" }', "{ port = 1 }", "port is the same with every setting"),
        ('name = "real time"', 'name = "as it stands"', "two are named 'as it stands'"),
        ("repeats = 2", "repeats = 0", "greater than or equal to 1"),
        (
            'name = "real time"',
            'name = "real time"\nkernel = "rt"',
            """kernel = 'rt' takes a guest: expected where = "guest" and no [hosts]""",
        ),
        (
            'name = "real time"',
            'name = "real time"\npublished = "x"',
            "'real time' has published figures: expected `published`, their file",
        ),
        (
            "repeats = 2",
            'repeats = 2\n[hosts]\na = { ssh = "a", address = ["192.0.2.1"] }',
            "flow 'one way': [hosts] has no 'b'",
        ),
        (
            "repeats = 2",
            'repeats = 2\n[hosts]\na = { ssh = "a", address = ["192.0.2.1"] }\n'
            'b = { ssh = "b", address = ["2001:db8::1"] }',
            "flow 'one way': 'b' has no IPv4 address",
        ),
        (
            "repeats = 2",
            'repeats = 2\n[hosts]\na = { ssh = "-oProxy", address = ["192.0.2.1"] }',
            "'-oProxy': expected a host such as root@a",
        ),
    ],
    ids=str,
)
def test_a_bad_file_is_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    text = FILE.replace(old, new, 1)
    assert text != FILE
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, text))
    assert why in str(caught.value)
    assert "few.toml" in str(caught.value)
    # One fault is told once.
    assert "; line " not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"on": "moon"}, "--on moon: expected here or guest"),
        ({"on": "guest"}, "the file names machines ([hosts]); leave one of both out"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, more: dict[str, str], why: str
) -> None:
    machines = (
        '\n[hosts]\na = { ssh = "a", address = ["192.0.2.1"] }\n'
        'b = { ssh = "b", address = ["192.0.2.2"] }\n'
    )
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, FILE + machines), **cast(Any, more))
    assert why in str(caught.value)


PKTGEN = 'where = "guest"\n' + FILE.replace('{ realtime = "fifo:50" }', '{ by = "pktgen" }')


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('where = "guest"', "", """by = "pktgen" takes a guest: expected where = "guest" and"""),
        (
            "repeats = 2",
            'repeats = 2\n[hosts]\na = { ssh = "a", address = ["192.0.2.1"] }\n'
            'b = { ssh = "b", address = ["192.0.2.2"] }',
            'by = "pktgen" takes a guest',
        ),
        ('by = "pktgen"', "ratep = true", 'expected by = "pktgen" with it'),
        ('"pktgen"', '"pktgen", interval = "1ms"', 'interval with by = "pktgen": expected none'),
        ('"pktgen"', '"pktgen", batch = 2', 'batch with by = "pktgen": expected none'),
        ('"pktgen"', '"pktgen", realtime = "fifo:1"', 'realtime with by = "pktgen"'),
        ('"pktgen"', '"pktgen", frame = 61', "frames of 61 bytes by pktgen: expected 62 to 1518"),
        ('"pktgen"', '"pktgen", size = 1473', "frames of 1519 bytes by pktgen: expected 62 to"),
        ('"pktgen"', '"pktgen", size = "uniform:16,99"', "size of pktgen: expected one number"),
        ('"pktgen"', '"pktgen", rate = 2000000000', "expected 1000000000 at most"),
        ('"pktgen"', '"pktgen", flows = 65000', "flows = 65000 of pktgen: expected 64511 at most"),
        ('"pktgen"', '"moon"', "flow.by: Input should be"),
        (
            "[[setting]]",
            '[[flow]]\nname = "aside"\nfrom = "a"\nto = "c"\n[[setting]]',
            "pktgen sends two flows from 'a': expected one at most",
        ),
    ],
    ids=str,
)
def test_what_pktgen_cannot_is_one_line(tmp_path: Path, old: str, new: str, why: str) -> None:
    text = PKTGEN.replace(old, new, 1)
    assert text != PKTGEN
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, text))
    assert why in str(caught.value)
    assert "'real time'" in str(caught.value)


def test_pktgen_sends_in_a_guest_only(tmp_path: Path) -> None:
    file = written(tmp_path, PKTGEN)
    found, _ = read(file, on="guest")
    assert found.by_pktgen() == ["real time"]
    with pytest.raises(UsageError, match="--on here: pktgen sends with setting 'real time', which"):
        read(file, on="here")


def test_ratep_takes_a_rate(tmp_path: Path) -> None:
    text = PKTGEN.replace("rate = 1000\n", "").replace('"pktgen"', '"pktgen", ratep = true')
    with pytest.raises(UsageError, match="ratep without a rate: expected `rate`"):
        read(written(tmp_path, text))


def test_here_has_one_kernel_only(tmp_path: Path) -> None:
    text = 'where = "guest"\n' + FILE.replace(
        'name = "real time"', 'name = "real time"\nkernel = "rt"'
    )
    with pytest.raises(UsageError, match="--on here: setting 'real time' has a kernel of its own"):
        read(written(tmp_path, text), on="here")


def test_options_take_the_place_of_the_files_own(tmp_path: Path) -> None:
    text = FILE.replace('realtime = "fifo:50"', 'realtime = "fifo:50", seconds = 9')
    found, _ = read(written(tmp_path, text), on="guest", seconds=0.5, repeats=7)
    assert (found.where, found.repeats) == ("guest", 7)
    assert {changed(found.flow[0], one).seconds for one in found.setting} == {0.5}
    assert changed(found.flow[0], found.setting[1]).realtime == "fifo:50"


def test_published_figures_are_in_microseconds_and_ours_in_nanoseconds(tmp_path: Path) -> None:
    text = "experiment,iat_min_us,iat_median_us,iat_max_us,iat_sigma_us\nx,845,1000.5,1158,\n"
    (tmp_path / "figures.csv").write_text(text)
    named = FILE.replace("repeats = 2", 'repeats = 2\npublished = "figures.csv"')
    _, found = read(written(tmp_path, named))
    # What the study did not print is left out.
    assert found["x"].times == {"least": 845_000, "p50": 1_000_500, "most": 1_158_000}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("moon\n1\n", "expected a column `experiment`"),
        ("# Whose?\nexperiment,iat_max_us\n\nx,many\n", "line 4: could not convert string"),
        ("experiment,iat_max_us\ny,1\n", "'x': expected one of y"),
    ],
    ids=str,
)
def test_published_figures_that_are_none_are_one_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "figures.csv").write_text(text)
    named = FILE.replace("repeats = 2", 'repeats = 2\npublished = "figures.csv"').replace(
        'name = "real time"', 'name = "real time"\npublished = "x"'
    )
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, named))
    assert why in str(caught.value)


TCP = """
name = "few"
question = "Does it matter?"
[[tcp]]
name = "over TCP"
from = "a"
to = "b"
kind = "requests"
rate = 1000
[[setting]]
name = "as it stands"
[[setting]]
name = "more at once"
tcp = { connections = 8 }
"""


def tcp(**more: object) -> TcpFlow:
    made = {"name": "over TCP", "from": "a", "to": "b", "kind": "requests", "seconds": 2}
    return TcpFlow.model_validate(made | more)


@pytest.mark.parametrize(
    ("more", "client"),
    [
        (
            {},
            "tcp-rr --to 192.0.2.2:5000 --seconds 2 --flows 1 --timeout 5 --spin 0 --seed 1 "
            "--request 16 --response 16",
        ),
        (
            {"kind": "connections", "close": "reset", "connections": 9, "rate": 50, "cpu": 1},
            "tcp-crr --to 192.0.2.2:5000 --seconds 2 --flows 9 --rate 50 --timeout 5 --spin 0 "
            "--seed 1 --request 16 --response 16 --close reset --cpu 1",
        ),
        (
            {"kind": "stream", "write": 100, "rate": 10**9, "family": 6, "realtime": "rr:3"},
            "tcp-stream --to [2001:db8::2]:5000 --seconds 2 --flows 1 --rate 1000000000 "
            "--timeout 5 --spin 0 --size 100 --realtime rr:3",
        ),
        (
            {"kind": "stream", "reverse": True},
            "tcp-stream --to 192.0.2.2:5000 --seconds 2 --flows 1 --timeout 5 --spin 0 --reverse",
        ),
    ],
    ids=["requests", "connections", "stream", "reverse"],
)
def test_a_tcp_flow_is_a_server_and_a_client(more: dict[str, object], client: str) -> None:
    found = ends.ends(tcp(**more), host("a", 1), host("b", 2), "one")
    assert " ".join(found.sender) == f"/a/skblab-traffic {client}"
    where = "[2001:db8::2]:5000" if more.get("family") == 6 else "192.0.2.2:5000"
    assert found.receiver[:4] == ["/b/skblab-traffic", "tcp-serve", "--bind", where]
    # It goes on until it is told, or long after its client.
    assert found.serves
    assert found.receiver[4:8] == ["--seconds", "132", "--connections", "16384"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('kind = "requests"', 'kind = "datagrams"', "tcp.0.kind: Input should be"),
        ("rate = 1000", 'close = "reset"', "tcp.0: close with kind = 'requests': expected none"),
        ("rate = 1000", "reverse = true", "reverse with kind = 'requests': expected none"),
        ("rate = 1000", "write = 5", "write with kind = 'requests': expected none"),
        ("rate = 1000", 'rate = 1\ninterval = "1ms"', "rate and interval: expected one of them"),
        ("rate = 1000", 'interval = "potato:1ms"', "potato: no such generator"),
        ("rate = 1000", "rate = 4294967296", "rate = 4294967296: expected 4294967295 at most"),
        ("rate = 1000", "request = 15", "greater than or equal to 16"),
        ("rate = 1000", "timeout = 0", "greater than 0"),
        (
            'kind = "requests"\nrate = 1000',
            'kind = "stream"\nreverse = true\nwrite = 5',
            "write with reverse: expected none, the receiver sends as fast as it can",
        ),
        (
            'kind = "requests"\nrate = 1000',
            'kind = "stream"\nconnections = 1025',
            "connections = 1025 of a stream: expected 1024 at most",
        ),
        ("connections = 8", 'close = "reset"', "'more at once': close with kind ="),
        ("connections = 8", "connections = 0", "'more at once': tcp.connections: "),
        ("connections = 8", 'kind = "stream"', "kind is the same with every setting"),
        ("connections = 8", "port = 1", "port is the same with every setting"),
        ("tcp = {", "flow = {", "'more at once': flow = ...: expected [[flow]] with it"),
        ('to = "b"', 'to = "a"', "from and to are 'a': expected two hosts"),
        (
            "[[setting]]",
            '[[tcp]]\nname = "x"\nfrom = "c"\nto = "b"\nkind = "stream"\n[[setting]]',
            "flow: two go to one port of one host",
        ),
        (
            "[[setting]]",
            '[[flow]]\nname = "over TCP"\nfrom = "a"\nto = "b"\n[[setting]]',
            "flow: two are named 'over TCP'",
        ),
    ],
    ids=str,
)
def test_a_bad_tcp_flow_is_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    text = TCP.replace(old, new, 1)
    assert text != TCP
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, text))
    assert why in str(caught.value)
    assert "few.toml" in str(caught.value)


def test_packets_and_tcp_go_to_one_port_at_once(tmp_path: Path) -> None:
    text = TCP.replace(
        "[[setting]]", '[[flow]]\nname = "udp"\nfrom = "c"\nto = "b"\n[[setting]]', 1
    )
    found, _ = read(written(tmp_path, text), seconds=0.5)
    assert [(type(one).__name__, one.port, one.seconds) for one in found.flows] == [
        ("Flow", 5000, 0.5),
        ("TcpFlow", 5000, 0.5),
    ]
    assert found.names == ("c", "b", "a")
    told = list(running.told(found))
    assert told[1] == (
        "flow over TCP, TCP over IPv4, requests, one at a time, 16 bytes for 16, 1000/s: "
        "a to b, 0.5 s"
    )
    assert "setting more at once: connections = 8 (TCP)" in told


def test_a_file_without_a_flow_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no flow: expected \[\[flow\]\], \[\[tcp\]\] or both"):
        read(written(tmp_path, 'name = "few"\nquestion = "?"\n'))


HEAD = Head(setting="as it stands", block=0, traffic="one way")
SENT = {"schema": "skblab.traffic/2", "role": "send", "sent": 10, "unsent": 0, "rate_reached": 9.9}
NONE = {"total": 0}
CAME = {
    **{"schema": "skblab.traffic/2", "role": "receive", "expected": 10, "received": 10},
    **{"distinct": 10, "duplicates": 0, "reordered": 0, "lost": 0, "too_old": 0, "beyond": 0},
    **{"foreign": NONE, "rate": 9.9},
}


@dataclass
class Program:
    """A program that is ready at once, and ends as it is made up."""

    argv: Sequence[str]
    done: Done
    goes_on: bool = False
    interrupted: bool = False

    def wait_for(self, text: str, seconds: float) -> None:
        assert text == "ready"

    def running(self) -> bool:
        return self.goes_on and not self.interrupted

    def interrupt(self) -> None:
        self.interrupted = True

    def wait(self, seconds: float) -> Done:
        return self.done


@dataclass
class Machine:
    """A transport to programs that send and receive 10 packets, if all goes well."""

    sent: Done = field(default_factory=lambda: Done(0, json.dumps(SENT), ""))
    came: Done = field(default_factory=lambda: Done(0, json.dumps(CAME), ""))
    waits: bool = False
    started: list[Program] = field(default_factory=list)

    def start(self, argv: Sequence[str]) -> Running:
        receives = bool({"receive", "tcp-serve"} & set(argv))
        made = Program(argv, self.came if receives else self.sent, self.waits and receives)
        self.started.append(made)
        return cast(Running, made)


def both(machine: Machine) -> Hosts:
    found = {
        name: Host(name, cast(Transport, machine), "skblab-traffic", {4: "192.0.2.1"})
        for name in ("a", "b")
    }
    kernel = Kernel(release="x", flavour="not ours", config_hash="", patches=())
    environment = Environment(kernel=kernel, guests={}, host=describe_host())
    return Hosts(found, one_clock=True, where="nowhere", environment=lambda: environment)


def test_receivers_are_ready_before_anything_is_sent() -> None:
    machine = Machine()
    back = flow(**{"name": "back", "from": "b", "to": "a"})
    found = running.exchange([flow(), back], both(machine))
    trials = [ends.measured(HEAD, sent, came) for ends, sent, came in found]
    assert all(isinstance(trial, Exchanged) for trial in trials)
    assert [trial.row(0).sent for trial in trials] == [10, 10]
    assert [program.argv[1] for program in machine.started] == ["receive"] * 2 + ["send"] * 2


def test_a_server_is_told_to_end_once_its_client_has() -> None:
    machine = Machine(
        sent=Done(1, json.dumps(exchange(failed=1000)), "1000 of 1000 failed"),
        came=Done(0, json.dumps(serve(0)), ""),
        waits=True,
    )
    [(commands, sent, came)] = running.exchange([tcp(kind="connections")], both(machine))
    assert [program.interrupted for program in machine.started] == [True, False]
    # It says why nothing was completed, which is a trial, though not a good one.
    trial = commands.measured(HEAD, sent, came)
    with pytest.raises(RefusedError, match="of 1000 begun none was completed: 1000 ETIMEDOUT"):
        list(trial.rows(0))


def test_a_client_that_fails_without_a_word_ends_its_server() -> None:
    machine = Machine(sent=Done(2, "", "skblab-traffic: no such option"), waits=True)
    with pytest.raises(SkblabError, match=r"the sender of 'over TCP' failed.*no such option"):
        running.exchange([tcp()], both(machine))
    assert [program.interrupted for program in machine.started] == [True, False]


def test_a_sender_that_fails_ends_its_receiver() -> None:
    machine = Machine(sent=Done(2, "", "skblab-traffic: no route"), waits=True)
    with pytest.raises(SkblabError, match=r"the sender of 'one way' failed.*no route"):
        running.exchange([flow()], both(machine))
    assert [program.interrupted for program in machine.started] == [True, False]


def test_a_receiver_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LATE_SECONDS", 0.0)
    machine = Machine(waits=True)
    with pytest.raises(SkblabError, match="the receiver of 'one way' did not end within 0 s"):
        running.exchange([flow(seconds=0.01)], both(machine))
    assert machine.started[0].interrupted


def test_hosts_have_addresses_of_one_network() -> None:
    text = hosts.script(["a", "b"])
    assert text.endswith("be_hosts a b")
    # A namespace that is no host has a name that no host can have.
    [own] = re.findall(r'quiet (\w+) "\$@"', text)
    with pytest.raises(ValidationError):
        flow(to=own)
    # What the script gives to the n-th is what is sent to.
    for address in (hosts.IPV4, hosts.IPV6):
        assert address.partition("{")[0] in text
    made = "f() { " + text.split("mac() {")[1].split("}")[0] + "}; f 11"
    printed = subprocess.run(["sh", "-c", made], capture_output=True, text=True, check=True)
    assert printed.stdout == hosts.MAC.format(11)
