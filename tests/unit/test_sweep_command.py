# SPDX-License-Identifier: GPL-2.0-or-later
"""A command of the user's as generator: what it is asked, what of its answers is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import schema_checks

from skblab.lab import paths
from skblab.machine.transport import LocalTransport, Shell, Transport
from skblab.machine.transport.base import Done
from skblab.sweep.experiment import Experiment
from skblab.sweep.hostmachines import require_sink
from skblab.testbeds import HOSTS, Offered, Sending, hosts, hostsfile
from skblab.testbeds.asked import MOST_PACKETS, Stream
from skblab.testbeds.command import Command
from skblab.testbeds.hosts import Hosts
from skblab.testbeds.native import NAME, Native
from skblab.testbeds.sending import Sent, Step
from skblab_analysis.base.errors import SkblabError, UsageError

ADAPTERS = paths.tree() / "runners" / "adapters"
PAGE = paths.tree() / "docs" / "howto" / "use-another-tester.md"
EXAMPLE = ADAPTERS / "skblab_traffic.py"
MACS = {
    **{"G0_MAC": "02:00:00:00:00:01", "R0_MAC": "02:00:00:00:00:02"},
    **{"C0_MAC": "02:00:00:00:00:05", "S1_MAC": "02:00:00:00:00:06"},
}
STREAM = Stream(family=4, frame=64, flows=32)
SENDING = Sending(STREAM, 1000, rate=1000.0, seconds=2.0)
ANSWER = {"schema": "skblab.sender/1", "sent": 990, "refused": 10, "seconds": 0.999}


class Machine:
    """A tester whose command says this, and that counts so much at its sink, in turn."""

    def __init__(self, printed: object, *counters: int, status: int = 0, error: str = "") -> None:
        text = printed if isinstance(printed, str) else json.dumps(printed)
        self.done, self.counters = Done(status, text, error), list(counters)
        self.argv: list[str] = []
        self.asked: dict[str, Any] = {}

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return Done(0, f"{self.counters.pop(0)}\n", "")

    def run(self, argv: list[str], *, stdin: str = "", seconds: float = 600) -> Done:
        self.argv, self.asked = argv, json.loads(stdin)
        return self.done


class Router:
    """A router that says these lines, in turn."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return Done(0, self.lines.pop(0), "")


def command(*argv: str) -> Command:
    words = argv or ("/usr/local/bin/my-tester", "--x")
    return Command(words, ("nsenter", "--net=/run/netns/generator", "--"), "generator")


def send(tester: Machine, sending: Sending = SENDING, tag: str = "") -> Sent:
    return command().send(cast(Transport, tester), sending, MACS, tag)


def asked(sending: Sending, tag: str = "") -> dict[str, Any]:
    """Return what a command is asked, which has the documented form."""
    found: dict[str, Any] = json.loads(
        command().request(sending, MACS, tag).model_dump_json(by_alias=True)
    )
    schema_checks.schema("sender-request").validate(found)
    return found


def test_a_command_is_asked_all_that_it_has_to_know() -> None:
    tester = Machine(ANSWER)
    assert send(tester, tag="7") == Sent(990, 10, 999_000)
    assert tester.argv == [
        *("nsenter", "--net=/run/netns/generator", "--"),
        *("timeout", "--kill-after=5", "122", "/usr/local/bin/my-tester", "--x"),
    ]
    assert (
        tester.asked
        == asked(SENDING, "7")
        == {
            **{"schema": "skblab.sender-request/1", "path": "router"},
            **{"device": "g0", "namespace": "generator"},
            **{"source_mac": MACS["G0_MAC"], "destination_mac": MACS["R0_MAC"], "vlan": 7},
            **{"family": 4, "source": "198.18.0.2", "destination": "198.19.0.2"},
            **{"destinations": None, "source_port": 1024, "flows": 32, "destination_port": 1024},
            **{"frames": [{"bytes": 64, "weight": 1}], "packets": 1000, "rate": 1000.0},
            **{"seconds": 2.0, "then": None, "timed": False, "seed": tester.asked["seed"]},
        }
    )


@pytest.mark.parametrize(
    ("sending", "wanted"),
    [
        (
            Sending(STREAM, 10, tester=True, by_queue=True),
            {
                **{"path": "tester", "device": "c0", "timed": True, "rate": None, "seconds": 600},
                **{"source_mac": MACS["C0_MAC"], "destination_mac": MACS["S1_MAC"]},
            },
        ),
        (
            Sending(STREAM, MOST_PACKETS, rate=10.0, seconds=3.0, then=5.0, after=1.5),
            {"packets": None, "then": {"rate": 5.0, "after": 1.5}, "seconds": 3.0},
        ),
        (
            Sending(Stream(family=6, frame="ams-ix", flows=1, destinations="random"), 10),
            {
                **{"source": "2001:db8:0:1::2", "destination": "2001:db8:0:2::2", "family": 6},
                "destinations": {
                    "first": "2400::",
                    "last": "240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                },
                "frames": [
                    {"bytes": size, "weight": weight}
                    for size, weight in (
                        *((1518, 21), (1270, 26), (767, 3)),
                        *((383, 3), (191, 4), (96, 43)),
                    )
                ],
            },
        ),
        (
            Sending(Stream(family=4, frame=64, flows=1, destinations="random"), 10),
            {"destinations": {"first": "11.0.0.0", "last": "99.255.255.255"}},
        ),
    ],
    ids=["alone", "step", "ipv6", "random"],
)
def test_all_traffic_can_be_asked(sending: Sending, wanted: dict[str, object]) -> None:
    assert wanted.items() <= asked(sending).items()


def test_the_same_traffic_has_the_same_seed() -> None:
    other = Sending(Stream(family=4, frame=128, flows=32), 10)
    seeds = [asked(one)["seed"] for one in (SENDING, Sending(STREAM, 5), other)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_a_change_of_rate_is_told() -> None:
    sending = Sending(STREAM, 1000, rate=1000.0, seconds=2.0, then=500.0, after=0.5)
    stepped = {**ANSWER, "step": {"packet": 500, "seconds": 0.500001}}
    schema_checks.schema("sender-answer").validate(stepped)
    assert send(Machine(stepped), sending).step == Step(500, 500, 500_001)
    with pytest.raises(SkblabError, match="did not come to the change of its rate"):
        send(Machine(ANSWER), sending)


WHO = "the tester's command `/usr/local/bin/my-tester --x`"


@pytest.mark.parametrize(
    ("tester", "said"),
    [
        (Machine("", status=3, error="one\nno link\n"), f"{WHO} failed (exit 3): no link"),
        (Machine("", status=127, error="timeout: failed"), f"{WHO} failed (exit 127): timeout"),
        (Machine("", status=124), f"{WHO} did not answer within 122 s"),
        (Machine("", status=137), f"{WHO} was killed: it did not end within 122 s, or its"),
        (Machine(""), f"what {WHO} printed is not as expected: "),
        (Machine("done!"), f"what {WHO} printed is not as expected: "),
        (Machine("[]"), f"what {WHO} printed is not as expected: "),
        (Machine({**ANSWER, "schema": "moon/1"}), "printed is not as expected: schema: Input"),
        (Machine({**ANSWER, "sent": -1}), "printed is not as expected: sent: Input should be gr"),
        (Machine({**ANSWER, "sent": "990"}), "printed is not as expected: sent: Input should be"),
        (Machine({**ANSWER, "sent": 9.5}), "printed is not as expected: sent: Input should be a v"),
        (Machine({**ANSWER, "seconds": -0.1}), "printed is not as expected: seconds: Input should"),
        (
            Machine({**ANSWER, "seconds": 0}),
            "printed is not as expected: 1000 packets in 0 seconds",
        ),
        (Machine({**ANSWER, "lost": 3}), "printed is not as expected: lost: Extra inputs"),
        (Machine('{"schema": "skblab.sender/1"}'), "printed is not as expected: sent: Field req"),
        (Machine({**ANSWER, "refused": 11}), f"{WHO} sent 1001 packets: expected at most 1000"),
        (Machine({**ANSWER, "received": 3}), f'{WHO} printed "received": the kernel counts what'),
    ],
    ids=lambda value: value[-24:] if isinstance(value, str) else "",
)
def test_an_answer_that_breaks_the_contract_is_one_line(tester: Machine, said: str) -> None:
    with pytest.raises(SkblabError) as refused:
        send(tester)
    assert said in str(refused.value)
    assert "my-tester" in str(refused.value)
    assert "\n" not in str(refused.value)


def bed(router: Router, tester: Machine, generator: Command) -> Hosts:
    return Hosts(
        *(cast(Transport, router), cast(Transport, tester), HOSTS.machine(2), 0, ("net",), MACS),
        generator=generator,
        loop=True,
        opens=lambda transport, text: cast(
            Shell, SimpleNamespace(script=cast(Machine, transport).script)
        ),
    )


def test_the_kernel_counts_what_came_to_the_sink() -> None:
    tester = Machine(ANSWER, 5000, 5980)
    offered = bed(Router("7 100\n", "1080\n"), tester, command()).offer(SENDING)
    assert offered == Offered(990, 980, 980, 999_000, 10)
    assert tester.asked["vlan"] == 7


COUNTED = {**ANSWER, "received": 970}


@pytest.mark.parametrize(
    ("handed", "tester", "wanted"),
    [
        (["7 100\n", "1070\n"], False, Offered(990, 970, 970, 999_000, 10)),
        # The router's counters are late.
        (["100\n", "600\n", "1080\n", "1080\n"], False, Offered(990, 980, 970, 999_000, 10)),
        ([], True, Offered(990, 990, 970, 999_000, 10)),
    ],
    ids=["at once", "late", "alone"],
)
def test_a_command_counts_where_the_kernel_has_no_sink(
    handed: list[str], tester: bool, wanted: Offered
) -> None:
    # No counter of the tester's kernel is looked at: there would be none to be taken.
    machine, generator = Machine(COUNTED), Command(("/bin/x",), counts=True)
    made = bed(Router(*handed), machine, generator)
    sending = Sending(STREAM, 1000, rate=1000.0, seconds=2.0, tester=tester)
    assert made.offer(sending) == wanted
    assert machine.argv == ["timeout", "--kill-after=5", "122", "/bin/x"]
    assert (machine.asked["device"], machine.asked["namespace"]) == (None, None)
    schema_checks.schema("sender-request").validate(machine.asked)
    schema_checks.schema("sender-answer").validate(COUNTED)


def test_a_command_that_has_to_count_does() -> None:
    with pytest.raises(SkblabError, match='`/bin/x` did not print "received": expected the packet'):
        Command(("/bin/x",), counts=True).send(cast(Transport, Machine(ANSWER)), SENDING, MACS, "")


def test_a_command_is_run_as_it_stands(tmp_path: Path) -> None:
    """By a shell's word a program with a blank in its name would be another one."""
    program = tmp_path / "my tester"
    program.write_text(
        "#!/bin/sh\nread -r asked\n"
        f'echo "$1" >"{tmp_path}/said"; echo "$asked" >>"{tmp_path}/said"\n'
        f"echo '{json.dumps(ANSWER)}'\n"
    )
    program.chmod(0o755)
    found = Command((str(program), "a b; $c"), (), "generator").send(
        LocalTransport(), SENDING, MACS, ""
    )
    assert found == Sent(990, 10, 999_000)
    word, line = (tmp_path / "said").read_text().splitlines()
    assert word == "a b; $c"
    assert json.loads(line) == asked(SENDING)


HOSTS_FILE = """\
[router]
ssh = "root@router"
in = "eth1"
out = "eth2"
[tester]
ssh = "root@tester"
generator = "eth1"
sink = "eth2"
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('sender = "command"\n', 'sender = "command" needs command = ['),
        ('command = ["/bin/x"]\n', 'command needs sender = "command"'),
        ('sender = "pktgen"\ncommand = ["/bin/x"]\n', 'command needs sender = "command"'),
        ('sender = "command"\ncommand = []\n', "[]: expected the path of a program on the tester"),
        ('sender = "command"\ncommand = ["x"]\n', "['x']: expected the path of a program on the"),
        ('sender = "command"\ncommand = ["/x", "\\n"]\n', "expected the path of a program on the"),
        ('sender = "command"\ncommand = "/bin/x"\n', "tester.command: "),
    ],
)
def test_a_hosts_file_says_which_command(tmp_path: Path, more: str, said: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(HOSTS_FILE + more)
    with pytest.raises(UsageError) as refused:
        hostsfile.read(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


APART = HOSTS_FILE.replace(
    'generator = "eth1"\nsink = "eth2"',
    'generator = "02:00:00:00:0A:01"\nsink = "02:00:00:00:0a:04"',
)


def test_ports_that_the_kernel_does_not_have_are_addresses(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    more = 'loop = ["02:00:00:00:0a:05", "02:00:00:00:0a:06"]\n'
    file.write_text(f'{APART}{more}sender = "command"\ncommand = ["/bin/sh"]\n')
    found = hostsfile.read(file)
    assert found.tester.apart
    assert found.tester.ports == tuple(f"02:00:00:00:0a:0{number}" for number in (1, 4, 5, 6))
    assert hostsfile.HostsFile.model_validate_json(found.model_dump_json(by_alias=True)) == found
    made = hosts._command(found, LocalTransport())
    assert (made.counts, made.inside, made.namespace) == (True, (), None)
    plain = tmp_path / "plain.toml"
    plain.write_text(HOSTS_FILE)
    assert not hostsfile.read(plain).tester.apart


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", '02:00:00:00:0a:01 is a port that the kernel does not have: expected sender = "c'),
        ('"02:00:00:00:0a:04"', '"eth2"', "expected names of all ports, or addresses of all"),
        ("", 'loop = ["eth3", "eth4"]\n', "expected names of all ports, or addresses of all"),
        ("02:00:00:00:0a:04", "02:00:00:00:0a", "'02:00:00:00:0a': expected the Ethernet address"),
        ("02:00:00:00:0a:04", "03:00:00:00:0a:04", "'03:00:00:00:0a:04': expected the Ethernet a"),
        ("02:00:00:00:0a:04", "02:00:00:00:0a:01", "expected ports that differ"),
    ],
)
def test_what_is_wrong_with_such_ports_is_said(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(APART.replace(old, new) if old else APART + new)
    with pytest.raises(UsageError) as refused:
        hostsfile.read(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_packets_cannot_be_timed_where_the_kernel_has_no_sink(tmp_path: Path) -> None:
    def experiment(**measure: object) -> Experiment:
        return Experiment.model_validate({"name": "few", "question": "?", "measure": measure})

    file = tmp_path / "lab.toml"
    file.write_text(f'{APART}sender = "command"\ncommand = ["/bin/sh"]\n')
    apart = hostsfile.read(file)
    latency: dict[str, object] = {"rates": [200]}
    require_sink(apart, experiment(throughput={}))
    with pytest.raises(UsageError, match=r"\(\[measure.latency\]\), and the kernel of root@tester"):
        require_sink(apart, experiment(throughput={}, latency=latency))
    file.write_text(HOSTS_FILE)
    require_sink(hostsfile.read(file), experiment(latency=latency))


def test_a_tester_without_ports_of_the_kernels_says_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(f'{APART}sender = "command"\ncommand = ["/bin/sh"]\n')
    calls: list[list[str]] = []

    def taken(transport: Transport, call: list[str], host: str) -> AbstractContextManager[object]:
        calls.append(call)
        return nullcontext({"pktgen": "no", "near": "", "cpus": "4"})

    monkeypatch.setattr(hosts, "_taken", taken)
    with hosts._tester(hostsfile.read(file), LocalTransport(), "me") as near:
        assert near == {
            **{"pktgen": "no", "near": "", "cpus": "4"},
            **{"G0_MAC": "02:00:00:00:0a:01", "S0_MAC": "02:00:00:00:0a:04"},
        }
    file.write_text(HOSTS_FILE)
    with hosts._tester(hostsfile.read(file), LocalTransport(), "me"):
        pass
    assert calls == [["have_tester", "me"], ["take_tester", "me", "eth1", "eth2"]]


@pytest.fixture
def lab(tmp_path: Path) -> hostsfile.HostsFile:
    """A hosts file with a command that is not there."""
    file = tmp_path / "lab.toml"
    file.write_text(f'{HOSTS_FILE}sender = "command"\ncommand = ["{tmp_path}/x", "--y"]\n')
    return hostsfile.read(file)


def test_a_command_has_to_be_a_program(lab: hostsfile.HostsFile) -> None:
    assert hostsfile.HostsFile.model_validate_json(lab.model_dump_json(by_alias=True)) == lab
    assert lab.tester.command is not None
    program = Path(lab.tester.command[0])

    def refused() -> None:
        with pytest.raises(UsageError, match=f"root@tester has no program {program}, which the"):
            hosts._command(lab, LocalTransport())

    refused()
    program.mkdir()
    refused()
    program.rmdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    made = hosts._command(lab, LocalTransport())
    assert made.name == f"{program} --y"
    assert made.inside == hosts.GENERATOR
    assert made.namespace == "generator"


# What `skblab-traffic send` would print, and where it notes its arguments.
FAKE = """#!/bin/sh
for word; do echo "$word"; done >"$0.said"
case " $* " in
*" --then "*) step='{"sequence": 3, "at_ns": 1500000, "rate": 5.0}' ;;
*) step=null ;;
esac
echo "{\\"schema\\": \\"skblab.traffic/2\\", \\"sent\\": 9, \\"unsent\\": 1, \\"seconds\\": 0.5, \\
	\\"step\\": $step}"
"""


@pytest.fixture
def sender(tmp_path: Path) -> Path:
    """A made-up skblab-traffic."""
    program = tmp_path / NAME
    program.write_text(FAKE)
    program.chmod(0o755)
    return program


def options(words: list[str]) -> dict[str, str]:
    """Return a sender's options with their values; of `--queue` nothing."""
    words = [word for word in words if word != "--queue"]
    return dict(zip(words[1::2], words[2::2], strict=True))


@pytest.mark.parametrize(
    ("sending", "tag"),
    [
        (SENDING, "7"),
        (Sending(STREAM, 10, tester=True, by_queue=True), ""),
        (Sending(STREAM, MOST_PACKETS, rate=10.0, seconds=3.0, then=5.0, after=1.5), ""),
        (Sending(Stream(family=6, frame="ams-ix", flows=1, destinations="random"), 10), ""),
    ],
    ids=["rate", "alone", "step", "ipv6"],
)
def test_the_example_asks_what_our_own_sender_is_asked(
    sender: Path, sending: Sending, tag: str
) -> None:
    example = command(sys.executable, str(EXAMPLE), str(sender))
    done = subprocess.run(
        example.argv,
        input=example.request(sending, MACS, tag).model_dump_json(by_alias=True),
        capture_output=True,
        text=True,
        check=True,
    )
    schema_checks.schema("sender-answer").validate(json.loads(done.stdout))
    sent = send(Machine(done.stdout), sending, tag)
    step = Step(3, 3, 1500) if sending.then else None
    assert sent == Sent(9, 1, 500_000, step)
    said = Path(f"{sender}.said").read_text().splitlines()
    ours = Native().argv(sending, MACS, tag)[1:]
    assert ("--queue" in said) == ("--queue" in ours)
    found, wanted = options(said), options(ours)
    # How it does it is its own affair.
    assert wanted.pop("--batch") and found.pop("--seed")
    for key in ("--rate", "--then", "--after", "--seconds"):
        assert float(found.pop(key, 0)) == float(wanted.pop(key, 0))
    assert found == wanted


def test_the_example_hands_on_why_it_cannot_send(sender: Path) -> None:
    sender.write_text("#!/bin/sh\necho 'skblab-traffic: g0 is down' >&2\nexit 2\n")
    example = Command((sys.executable, str(EXAMPLE), str(sender)), (), "generator")
    with pytest.raises(SkblabError, match=r"failed \(exit 2\): skblab-traffic: g0 is down"):
        example.send(LocalTransport(), SENDING, MACS, "")


def test_the_example_of_the_page_is_the_one_that_is_tested() -> None:
    shown = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    assert EXAMPLE.read_text() == f"#!/usr/bin/env python3\n{shown}"
