# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that only a boot sets: how a guest is booted with them, and what a running one says."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import cast

import pytest

from skblab.knobs.base import UNABLE, Unable
from skblab.knobs.boot import BOOTS, FLAG, start
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.lab import kernel
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import Transport
from skblab.machine.transport.base import Done
from skblab.sweep import booting, plan, running
from skblab.sweep.booting import Booting, begin
from skblab.sweep.dryrun import commands, setting
from skblab.sweep.experiment import BASELINE, WAYS_OUT, Experiment
from skblab.sweep.machines import Guests
from skblab.sweep.measure.exact import Counting
from skblab.sweep.planned import TESTER, Boot
from skblab.sweep.progress import Progress
from skblab.sweep.request import make_plan as planned
from skblab.sweep.running import Running
from skblab.sweep.session import by_boot
from skblab.testbeds import NETNS
from skblab.tune import choosing
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder

MACHINE = NETNS.machine(1)
NAMES = [boot.name for boot in BOOTS]


def experiment(*settings: dict[str, Value]) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "boots",
            "question": "?",
            "baseline": {"rp_filter": 0},
            "setting": [{"name": f"s{at}", "knobs": knobs} for at, knobs in enumerate(settings)],
            "measure": {"throughput": {}},
            "repeats": {"least": 1, "most": 1},
        }
    )


def test_the_knobs_of_a_boot_are_those_that_say_so() -> None:
    assert sorted(NAMES) == sorted(knob.name for knob in KNOBS.values() if knob.boot)


@pytest.mark.parametrize(
    ("knobs", "arguments"),
    [
        ({"mitigations": "off"}, ("mitigations=off",)),
        ({"isolcpus": "3,1-2", "nohz_full": "none"}, ("isolcpus=1-3",)),
        ({"preempt": "full", "rp_filter": 1}, ("preempt=full",)),
        ({"selinux": "off"}, ("security=none",)),
        ({"selinux": "enforcing"}, ("security=selinux",)),
    ],
)
def test_arguments_of_the_kernel(knobs: dict[str, Value], arguments: tuple[str, ...]) -> None:
    assert start(knobs).arguments == arguments


def test_a_vrf_is_of_all_devices_or_none() -> None:
    knob = KNOBS["vrf"]
    plain = '[{"ifname":"r0","linkinfo":{"info_kind":"veth"}}]\n'
    slave = '[{"ifname":"r1","linkinfo":{"info_kind":"veth","info_slave_kind":"vrf"}}]\n'
    bridged = slave.replace('"vrf"', '"bridge"')
    assert knob.get(MACHINE).count("ip -d -j link show dev r") == 2
    for printed, state in (
        (plain, "off"),
        (bridged + plain, "off"),
        ('[{"ifname":"eth0"}]\n', "off"),
        (slave + slave, "on"),
        (plain + slave, "on of some devices only"),
    ):
        assert knob.state(printed) == state
    knob.fits(slave, True)
    with pytest.raises(Unable, match="is off; only a boot can make it on"):
        knob.fits(plain, True)


def test_a_vrf_has_a_boot_of_its_own() -> None:
    """What it leaves would be in whatever else is measured in that boot."""
    made = experiment({"vrf": True}, {"rp_filter": 1}, {"vrf": True, "rp_filter": 2})
    boots = {
        str(boot): {one.setting for one in boot.settings}
        for boot in planned(made, exact=False).boots
    }
    assert {name: of - {TESTER} for name, of in boots.items()} == {
        "": {BASELINE, AGAIN, "s1"},
        "vrf=on": {"s0", "s2"},
    }


@pytest.mark.parametrize(
    ("other", "value", "said"),
    [
        ("vlan", 7, "7"),
        ("bridge", "in", "'in'"),
        ("routes", 10, "10"),
        ("routes6", 10, "10"),
        ("next_hops", 4, "4"),
    ],
)
def test_routes_outside_of_a_vrf_would_have_no_effect(other: str, value: Value, said: str) -> None:
    with pytest.raises(ValueError, match=f"s0: vrf = on and {other} = {said} both lead packets"):
        experiment({"vrf": True, other: value})
    experiment({"vrf": False, other: value}, {"vrf": True, other: WAYS_OUT[other]})
    # A tune sets only one of them.
    made = experiment({"vrf": True}, {other: value})
    found = choosing.combine(made, ["s0", "s1"])
    assert found.settings == ("s0",) and found.left == (("s1", "what is better wants vrf=on"),)


def test_a_knob_chooses_another_kernel_than_the_run_has() -> None:
    assert (start({}, "rt", patches=False).flavour, start({}).patches) == ("rt", True)
    chosen = start({"kernel": "rt", "patches": False})
    assert str(chosen) == "kernel rt, without patches"
    assert start({"selinux": "enforcing"}).scripts[0].endswith("begin enforcing\n)")
    assert start({"selinux": "off"}).scripts == ()
    # It is there before router.sh looks for it.
    assert start({"vrf": True}).scripts == (f": >{FLAG}",) and start({"vrf": False}).scripts == ()
    assert f"VRF_FLAG={FLAG} " in (resources.files("skblab.testbeds") / "router.sh").read_text()


@pytest.mark.parametrize(
    ("name", "printed", "value"),
    [
        ("kernel", "#1 SMP PREEMPT_RT Debian 6.12.48-1\n", "rt"),
        ("kernel", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1\n", "stock"),
        ("patches", "6.12.48-skblab-rt\n", True),
        ("patches", "6.12.48-plain\n", False),
        ("patches", "6.12.48-plain-skblab-x\n", False),
        ("patches", "6.12.48-mine-skblab-plain\n", True),
        ("patches", "6.12.48+deb13-amd64\n", False),
        ("preempt", "none voluntary (full)\n", "full"),
        ("mitigations", "quiet mitigations=auto mitigations=off nokaslr\n", "off"),
        ("mitigations", "quiet\n", "auto"),
        ("isolcpus", "\n", "none"),
        ("isolcpus", "1-2\n", "2,1"),
        ("nohz_full", "  (null)\n", "none"),
        ("rcu_nocbs", "quiet rcu_nocbs=2,1\n", "1-2"),
        ("rcu_nocbs", "quiet\n", "none"),
        ("selinux", "permissive\n", "permissive"),
    ],
)
def test_what_a_machine_was_booted_with_is_read(name: str, printed: str, value: Value) -> None:
    knob = KNOBS[name]
    knob.fits(printed, knob.check(value))
    assert knob.state(printed) == knob.wanted(MACHINE, value, "")


def test_what_it_was_not_booted_with_is_out_of_reach() -> None:
    with pytest.raises(Unable, match=r"^is none; only a boot can make it 1-2$"):
        KNOBS["isolcpus"].fits("\n", "1-2")
    with pytest.raises(Unable, match="one preemption model"):
        KNOBS["preempt"].fits(f"{UNABLE} the kernel has one preemption model only\n", "full")


def test_a_dry_run_shows_each_boot() -> None:
    found = experiment({"mitigations": "off"}, {"kernel": "rt", "rp_filter": 2})
    made = plan.make(found, NAMES, exact=True)
    text = list(commands(made, NETNS, 1000))
    assert sorted(line for line in text if line.startswith("# booting")) == [
        "# booting: kernel rt, with patches",
        "# booting: kernel stock, with patches",
        "# booting: kernel stock, with patches, mitigations=off",
    ]
    # Nothing is sent that would fail: a boot sets them.
    assert not [line for line in text if "only a boot" in line]


class Says:
    """A guest that answers every script alike."""

    def __init__(self, status: int) -> None:
        self.status = status

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return Done(self.status, "", "setenforce: denied\n")


def test_what_fails_at_the_beginning_is_said() -> None:
    begins = start({"selinux": "enforcing"})
    assert begin(cast(Transport, Says(0)), begins) is None
    assert begin(cast(Transport, Says(1)), begins) == "setenforce: denied"


def test_a_boot_that_never_comes_up_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = experiment({"isolcpus": "0"})
    made = plan.make(found, NAMES, exact=True)
    folder = RunFolder.create(tmp_path, "it", Plan(experiment="it", seed=1, baseline=BASELINE))
    progress = Progress.read(folder.path)
    counting = Running(
        made, Counting(folder, Reporter(quiet=True), 1000), folder, Reporter(quiet=True), progress
    )
    built = kernel.Kernel(tmp_path, "key")
    tried: list[tuple[str, ...]] = []

    def dies(guests: Guests, boot: Boot) -> None:
        tried.append(guests.boots.start(boot).arguments)
        if boot.knobs:
            raise GuestError("guest panicked: no CPU is left")
        for of_setting in counting.progress.left(boot):
            for key, _ in counting.progress.waiting(boot, of_setting):
                counting._invalid(key, "made up")
        raise GuestError("that was all")

    monkeypatch.setattr(counting, "_testbed", dies)
    boots = Booting("stock", True, {("stock", True): built})
    there = (boots, cast(LabRoot, None), folder, Reporter(quiet=True))
    counting.run(Guests(NETNS, found, counting.method, *there))
    assert tried.count(("isolcpus=0",)) == running.BOOTS
    reasons = {row.setting: row.reason for row in load(folder.path).trials}
    assert reasons["s0"] == "no testbed came up 3 times: guest panicked: no CPU is left"
    assert reasons[BASELINE] == "made up"


def test_what_a_boot_sets_is_no_command_but_said() -> None:
    assert by_boot({"rp_filter": 1}) == []
    knobs: dict[str, Value] = {"kernel": "rt", "rp_filter": 1, "patches": False}
    assert by_boot(knobs) == ["# boot it with kernel=rt, patches=off"]
    assert len(setting(MACHINE, knobs, KNOBS)) == 1


def test_further_kernels_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.Kernel, "release", property(lambda self: f"6.12.48-{self.key}"))
    one, other = kernel.Kernel(tmp_path / "a", "a"), kernel.Kernel(tmp_path / "b", "b")
    boots = Booting("stock", True, {("rt", True): one, ("stock", False): other})
    # Knobs choose all of them.
    assert boots.first is one
    [boot] = plan.make(experiment(), NAMES, exact=True).boots
    assert Booting("rt", True, boots.kernels).kernel_of(boot) is one
    assert boots.others() == {"kernel stock without patches": "6.12.48-b"}
    # What was asked for, where no knob says otherwise.
    plain = Booting("stock", False, {("stock", True): one, ("stock", False): other})
    assert plain.kernel_of(boot) is other


def test_the_kernels_of_all_boots_are_built_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = kernel.Kernel(tmp_path, "key")
    asked: list[tuple[str, bool]] = []

    def ensure(request: kernel.Request, root: LabRoot, reporter: Reporter) -> kernel.Kernel:
        asked.append((request.flavour, request.patches))
        return built

    monkeypatch.setattr(kernel, "ensure", ensure)
    made = plan.make(experiment({"kernel": "rt"}, {"patches": True}), NAMES, exact=True)
    root, reporter = LabRoot(tmp_path, "root"), Reporter(quiet=True)
    found = booting.ensure(made, "stock", root, reporter, Name(patches=False))
    assert sorted(asked) == [("rt", False), ("stock", False), ("stock", True)]
    assert sorted(found.kernels) == sorted(asked)
    assert (found.flavour, found.patches) == ("stock", False)
