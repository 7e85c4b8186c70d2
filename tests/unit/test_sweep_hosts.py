# SPDX-License-Identifier: GPL-2.0-or-later
"""The hosts file, what is refused of it, and the scripts that take ports, on a made-up machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from skblab.cli import app
from skblab.knobs.applying import Undo
from skblab.knobs.base import Unable
from skblab.lab.reporter import Reporter
from skblab.machine.transport import LocalTransport, Shell, Transport, TransportError
from skblab.machine.transport.base import Done
from skblab.sweep import hostmachines
from skblab.sweep.experiment import Experiment
from skblab.sweep.hostmachines import HostMachines, abandoned
from skblab.testbeds import HOSTS, CableError, Sending, hosts, hostsfile, inventory
from skblab.testbeds.asked import Stream, Traffic
from skblab.testbeds.hosts import Hosts
from skblab_analysis.base.errors import SkblabError, UsageError

GOOD = """\
[router]
ssh = "root@router"
in = "eth1"
out = "eth2"
[tester]
ssh = "root@tester"
generator = "eth1"
sink = "eth2"
"""
STREAM = Stream(family=4, frame=128, flows=1)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "lab.toml"
    file.write_text(text)
    return file


def test_a_hosts_file_is_read(tmp_path: Path) -> None:
    found = hostsfile.read(write(tmp_path, GOOD + 'loop = ["eth3", "eth4"]\n'))
    assert found.router.ports == ("eth1", "eth2")
    assert found.tester.ports == ("eth1", "eth2", "eth3", "eth4")
    assert hostsfile.HostsFile.model_validate_json(found.model_dump_json(by_alias=True)) == found
    other = hostsfile.read(write(tmp_path, GOOD))
    assert other.key != found.key == found.model_copy().key


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"root@router"', '"-oProxyCommand=x"', ":2: router.ssh: '-oProxyCommand=x': expected a"),
        ('out = "eth2"', 'out = "eth1"', ":1: router: eth1, eth1: expected ports that differ"),
        ('"root@tester"', '"root@router"', "root@router is router and tester: expected two"),
        ('in = "eth1"', 'in = "eth 1"', ":3: router.in: "),
        ('in = "eth1"', 'in = "-x"', ":3: router.in: '-x': expected the name of a network device"),
        ('in = "eth1"', 'in = ".."', ":3: router.in: '..': expected the name of a network device"),
        ('in = "eth1"', 'in = "e*"', ":3: router.in: 'e*': expected the name of a network device"),
        ('in = "eth1"\n', "", ":1: router.in: is missing: write it"),
        ("[router]", 'ssh_config = "/nowhere"\n[router]', ":1: ssh_config: /nowhere: no such file"),
        ('sink = "eth2"', 'sink = "eth2"\nloop = ["eth3"]', "tester.loop"),
    ],
)
def test_what_is_wrong_with_a_hosts_file_is_said(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    file = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(UsageError) as refused:
        hostsfile.read(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--testbed", "hosts"], "needs --hosts FILE"),
        (["--hosts", "lab.toml"], "is for --testbed hosts, and the testbed is netns"),
        (["--testbed", "hosts", "--hosts", "/nowhere.toml"], "cannot read the hosts file"),
        (["--testbed", "hosts", "--exact"], "--exact counts the instructions"),
        (["--testbed", "hosts", "--hosts", "x", "--kernel", "6.12"], "choose the kernel of guests"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["sweep", "quick", "--dry-run", *options])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_a_dry_run_needs_no_host(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    call = ["sweep", "quick", "--testbed", "hosts", "--hosts", str(file), "--dry-run", "--scripts"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0
    assert "take_router" in done.output
    assert "# booting" not in done.output


class Answers:
    """A machine whose scripts print what they are told to, by a word that is in them."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.asked = answers, list[str]()

    def script(self, text: str, *, seconds: float = 600) -> Done:
        call = text.rstrip().splitlines()[-1]
        self.asked.append(call)
        said = [answer for word, answer in self.answers.items() if word in call]
        return Done(0, said[0] if said else "", "")


def bed(router: Answers, tester: Answers, *, loop: bool = False) -> Hosts:
    return Hosts(
        cast(Transport, router),
        cast(Transport, tester),
        HOSTS.machine(4),
        3,
        ("tester", "router", "hosts"),
        {"R0_MAC": "02:00:00:00:00:99"},
        ports=("g", "in", "out", "s"),
        loop=loop,
        opens=lambda transport, functions: cast(Shell, transport),
    )


@pytest.mark.parametrize(
    ("handed", "sent", "said"),
    [
        ("0", "100 0 1000 0 0", "forwarded none of 100 packets: is the tester's g joined to the"),
        ("100", "100 0 1000 0 0", "is the router's out joined to the tester's s?"),
    ],
)
def test_cables_that_are_elsewhere_are_told(
    handed: str, sent: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "GREETING_PAUSES", (0.0, 0.0))

    class Router(Answers):
        def script(self, text: str, *, seconds: float = 600) -> Done:
            done = super().script(text, seconds=seconds)
            if "handed_over" not in self.asked[-1]:
                return done
            looks = sum("handed_over" in script for script in self.asked)
            return Done(0, ("\n0" if "tag" in self.asked[-1] else handed if looks else "0"), "")

    tester = Answers(send=sent, settled="0")
    with pytest.raises(CableError, match=said.replace("?", r"\?")):
        bed(Router(), tester).prepare(Traffic())
    # A link that has just come up may lose the first ones.
    assert sum(script.startswith("send ") for script in tester.asked) == 3


def test_a_tester_without_a_loop_is_never_alone() -> None:
    with pytest.raises(Unable, match="the tester has no loop"):
        bed(Answers(), Answers()).offer(Sending(STREAM, 10, tester=True))


def test_what_a_machine_is_can_be_asked_anywhere() -> None:
    found = inventory.read(LocalTransport(), None)
    assert found["release"]
    assert int(found["CPUs"]) > 0
    assert "\n" not in "".join(found.values())


def machines(file: hostsfile.HostsFile, needs: dict[str, int] | None = None) -> HostMachines:
    made = {"name": "few", "question": "?", "measure": {"throughput": {}}, "needs": needs or {}}
    return HostMachines(
        file, Experiment.model_validate(made), Reporter(quiet=True), lambda: Path("none")
    )


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hostsfile.HostsFile:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    return hostsfile.read(write(tmp_path, GOOD))


def test_a_testbed_is_one_sweeps_at_a_time(file: hostsfile.HostsFile) -> None:
    first = machines(file)
    with first.alone():
        assert list(abandoned()) == []
        with (
            pytest.raises(UsageError, match="another sweep has root@router"),
            machines(file).alone(),
        ):
            raise AssertionError
    assert not first.place.exists()


def test_what_a_killed_run_left_is_put_back_by_the_next_on_the_same_router(
    file: hostsfile.HostsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = machines(file)
    with killed.alone():
        Undo(killed.undo).add("mtu", "echo 1")
    assert list(abandoned()) == [killed.place]
    asked: list[Sequence[tuple[str, str]]] = []

    def put_back(place: Path, reporter: Reporter) -> None:
        asked.append(Undo(place / "undo.jsonl").scripts())
        (place / "undo.jsonl").unlink()

    monkeypatch.setattr(hostmachines, "put_back", put_back)
    other = file.model_copy(
        update={"tester": file.tester.model_copy(update={"ssh": "root@another"})}
    )
    with machines(other).alone():
        assert asked == [[("mtu", "echo 1")]]


class Booted(Answers):
    """A router that is asked for its boot."""

    def run(self, argv: Sequence[str], *, stdin: str = "", seconds: float = 600) -> Done:
        assert argv[-1].endswith("boot_id")
        return Done(0, "another boot\n", "")


def test_settings_that_went_with_a_reboot_are_not_undone(file: hostsfile.HostsFile) -> None:
    killed, router = machines(file), Booted()
    with killed.alone():
        Undo(killed.undo).add("irq_affinity", "echo 0 >/proc/irq/55/smp_affinity_list")
        (killed.place / "boot").write_text("one boot")
    hostmachines._replay(killed.place, file, cast(Transport, router), killed.reporter)
    assert not Undo(killed.undo).scripts()
    assert not router.asked


def test_settings_of_a_run_that_noted_no_boot_are_undone(
    file: hostsfile.HostsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, router = machines(file), Booted()
    monkeypatch.setattr(hostmachines, "router_taken", lambda *_: contextlib.nullcontext())
    with killed.alone():
        Undo(killed.undo).add("mtu", "echo 1")
    hostmachines._replay(killed.place, file, cast(Transport, router), killed.reporter)
    assert router.asked[-1] == "echo 1"
    assert Undo(killed.undo).scripts() == []


def test_a_router_by_another_name_is_known_by_its_boot(
    file: hostsfile.HostsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = machines(file)
    with killed.alone():
        Undo(killed.undo).add("mtu", "echo 1")
        (killed.place / "boot").write_text("this boot")
    asked: list[Path] = []
    monkeypatch.setattr(hostmachines, "put_back", lambda place, *_: asked.append(place))
    alias = file.model_copy(
        update={"router": file.router.model_copy(update={"ssh": "root@router.example"})}
    )
    other = machines(alias)
    with other.alone():
        other._put_back_others("that boot")
        assert asked == []
        other._put_back_others("this boot")
        assert asked == [killed.place]


def left_on(file: hostsfile.HostsFile, boot: str = "") -> Path:
    """Have a testbed as a killed run leaves it, and return its folder."""
    killed = machines(file)
    with killed.alone():
        Undo(killed.undo).add("mtu", "echo 1")
        (killed.place / "boot").write_text(boot)
    return killed.place


def gone(place: Path, reporter: Reporter) -> None:
    raise TransportError("no connection to root@router: it is not there")


def test_another_router_of_that_name_that_is_gone_stops_nobody(
    file: hostsfile.HostsFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = left_on(file, "this boot")
    monkeypatch.setattr(hostmachines, "put_back", gone)
    with pytest.raises(TransportError), machines(file).alone():
        raise AssertionError
    config = place / "ways"
    config.touch()
    other = machines(file.model_copy(update={"ssh_config": str(config)}))
    other.reporter = Reporter()
    with other.alone():
        said = capsys.readouterr().err
        assert (
            "another root@router, which stay there until you run skblab cleanup: no connection"
            in said
        )
        other._put_back_others("that boot")
        with pytest.raises(UsageError, match=f"any more as {place}/hosts.json has it: "):
            other._put_back_others("this boot")
    assert list(abandoned()) == [place]


def test_a_router_that_is_gone_for_good_can_be_forgotten(
    file: hostsfile.HostsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = left_on(file)
    monkeypatch.setattr("skblab.sweep.hostmachines.put_back", gone)
    call = CliRunner().invoke
    refused = call(app, ["cleanup"])
    assert isinstance(refused.exception, SkblabError)
    assert "gone for good: skblab cleanup --forget root@router" in str(refused.exception)
    refused = call(app, ["cleanup", "--forget", "router"])
    assert isinstance(refused.exception, UsageError)
    assert "--forget router: expected a router on which something was left: root@router" in str(
        refused.exception
    )
    assert place.exists()

    def answers(place: Path, reporter: Reporter) -> None:
        raise SkblabError("not put back on root@router: mtu")

    with monkeypatch.context() as there:
        there.setattr("skblab.sweep.hostmachines.put_back", answers)
        refused = call(app, ["cleanup", "--forget", "root@router"])
        assert str(refused.exception) == "not put back on root@router: mtu"
    given: list[Path] = []
    monkeypatch.setattr(hostmachines, "_give_back_tester", lambda place, file: given.append(place))
    assert call(app, ["cleanup", "--forget", "root@router"]).exit_code == 0
    assert given == [place]
    assert not place.exists()


def test_a_router_whose_ssh_configuration_is_gone_can_be_forgotten(
    file: hostsfile.HostsFile, tmp_path: Path
) -> None:
    config = tmp_path / "ways"
    config.touch()
    place = left_on(file.model_copy(update={"ssh_config": str(config)}))
    config.unlink()
    call = CliRunner().invoke
    refused = call(app, ["cleanup"])
    assert isinstance(refused.exception, SkblabError)
    said = str(refused.exception)
    assert f"{config}: no such file; mend it there; if root@router is gone for good: " in said
    forgotten = call(app, said.rpartition("skblab ")[2].split())
    assert forgotten.exit_code == 0
    assert "forgot what a killed sweep left on root@router (" in forgotten.output
    assert not place.exists()
    assert call(app, ["cleanup"]).exit_code == 0


def test_a_run_killed_before_it_took_anything_left_nothing(file: hostsfile.HostsFile) -> None:
    place = left_on(file, "this boot")
    (place / "undo.jsonl").unlink()
    assert list(abandoned()) == []
    assert not place.exists()


def test_each_testbed_of_each_controller_says_who_it_is(file: hostsfile.HostsFile) -> None:
    killed = machines(file)
    with killed.alone():
        Undo(killed.undo).add("mtu", "echo 1")
        who = hostmachines._who(killed.place)
    assert hostmachines._who(killed.place) == who
    (killed.place / "id").unlink()
    assert hostmachines._who(killed.place) != who


def test_a_testbed_whose_ports_may_be_taken_is_not_forgotten(file: hostsfile.HostsFile) -> None:
    first = machines(file)
    with first.alone():
        (first.place / "taken").touch()
    assert list(abandoned()) == [first.place]


def test_a_router_with_too_few_cpus_is_refused(file: hostsfile.HostsFile) -> None:
    with pytest.raises(UsageError, match="has 4 CPUs: the experiment needs 8"):
        machines(file, {"cpus": 8})._check(bed(Answers(), Answers()))


def test_a_configuration_of_ssh_that_has_gone_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "ways"
    config.touch()
    found = hostsfile.read(write(tmp_path, f'ssh_config = "ways"\n{GOOD}'))
    assert found.ssh_config == str(config)
    killed = machines(found)
    with killed.alone():
        Undo(killed.undo).add("mtu", "echo 1")
    config.unlink()
    # Others are not in the way of it.
    with machines(hostsfile.read(write(tmp_path, GOOD.replace("@router", "@another")))).alone():
        pass
    with pytest.raises(UsageError) as refused:
        hostmachines.put_back(killed.place, Reporter(quiet=True))
    assert str(refused.value) == (
        f"{killed.place}/hosts.json: {config}: no such file; mend it there"
    )
