# SPDX-License-Identifier: GPL-2.0-or-later
"""Each check of `skblab doctor` on made-up machines, and the command on this one."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from typer.testing import CliRunner

from conftest import Skblab
from skblab.cli import app
from skblab.doctor import checks, hosts
from skblab.lab import kvm
from skblab.lab.labroot import Bind
from skblab.lab.labroot import root as labroot
from skblab.lab.labroot.root import LabRoot
from skblab.testbeds import Offered, Sending
from skblab.testbeds.hosts import Hosts
from skblab_analysis.base.words import FIXED_SPACE

GIB = checks.GIB
INTEL = "vendor_id\t: GenuineIntel\nflags\t\t: fpu msr\n"
Usage = namedtuple("Usage", "total used free")


class Machine:
    """A machine that has all there is; a test takes something away."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch = patch
        self.folder = folder
        self.root: LabRoot | None = LabRoot(folder / "root", "0123")
        self.cpuinfo(INTEL)
        (folder / "cache").mkdir()
        for name in ("keyring", "msr", "kvm"):
            (folder / name).touch()
        for source in ("cpu_core", "kprobe"):
            (folder / "events" / source).mkdir(parents=True)
        (folder / "btf").touch()
        (folder / "kallsyms").write_text("0000 T ip_rcv\n0000 D init_net\n")
        (folder / "filesystems").write_text("nodev\tproc\nnodev\ttracefs\n")
        (folder / "ftrace").write_text("1\n")
        (folder / "tracing").mkdir()
        (folder / "tracing/tracing_on").touch()
        versions = {"qemu-system-x86": "1:10.0.2", "systemtap": "5.1-5"}
        (folder / "root/skblab").mkdir(parents=True)
        (folder / "root/skblab/versions.json").write_text(json.dumps(versions))
        patch.setenv("SKBLAB_CACHE", str(folder / "cache"))
        patch.delenv("SKBLAB_CACHE_GIB", raising=False)
        patch.setenv("COLUMNS", "300")
        patch.setattr(checks, "KEYRING", folder / "keyring")
        patch.setattr(checks, "MSR", folder / "msr")
        patch.setattr(checks, "EVENT_SOURCES", folder / "events")
        patch.setattr(checks, "BTF", folder / "btf")
        patch.setattr(checks, "KALLSYMS", folder / "kallsyms")
        patch.setattr(checks, "FILESYSTEMS", folder / "filesystems")
        patch.setattr(checks, "FTRACE_ENABLED", folder / "ftrace")
        patch.setattr(checks, "TRACING", folder / "tracing")
        patch.setattr(kvm, "DEVICE", folder / "kvm")
        patch.setattr(kvm, "TRIAL_SECONDS", 0.2)
        patch.setattr(platform, "machine", lambda: "x86_64")
        patch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        patch.setattr(labroot, "existing", lambda: self.root)
        patch.setattr(os, "geteuid", lambda: 0)
        patch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        self.free(disk=100, memory=32)
        self.qemu("echo Booting from ROM; exec sleep 60")

    def cpuinfo(self, text: str) -> None:
        (self.folder / "cpuinfo").write_text(text)
        self.patch.setattr(checks, "CPUINFO", self.folder / "cpuinfo")

    def free(self, disk: float, memory: float) -> None:
        usage = Usage(0, 0, int(disk * GIB))
        self.patch.setattr(shutil, "disk_usage", lambda _: usage)
        available = SimpleNamespace(available=int(memory * GIB))
        self.patch.setattr(psutil, "virtual_memory", lambda: available)

    def qemu(self, script: str) -> None:
        """Let this shell script be QEMU."""

        def command(_: LabRoot, argv: Sequence[str], binds: Sequence[Bind]) -> list[str]:
            assert [bind.point for bind in binds] == ["kernel"] * ("-kernel" in argv)
            assert argv[0] == "qemu-system-x86_64"
            return ["sh", "-c", script, "sh", " ".join(argv)]

        self.patch.setattr(LabRoot, "command", command)

    def lacks(self, *names: str) -> None:
        self.patch.setattr(shutil, "which", lambda name: None if name in names else f"/bin/{name}")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def said(status: int, *arguments: str) -> dict[str, dict[str, str]]:
    """Run the command, which must end so; return what it says of each check."""
    done = CliRunner().invoke(app, ["doctor", "--json", *arguments])
    assert done.exit_code == status, done.output
    document = json.loads(done.stdout)
    assert document["ready"] == (status == 0)
    found = cast(list[dict[str, str]], document["checks"])
    assert [check["name"] for check in found] == list(checks.CHECKS)
    return {check["name"]: check for check in found}


def line(name: str, status: int = 0) -> tuple[str, str, str]:
    """Return status, finding and how to mend it of one check; all others must be good."""
    found = said(status)
    assert {other for other, check in found.items() if check["status"] != "good"} <= {name}
    check = found[name]
    return check["status"], check["found"], check["mend"]


def test_a_machine_that_has_all(machine: Machine) -> None:
    found = said(0)
    assert {check["status"] for check in found.values()} == {"good"}
    assert not any(check["mend"] for check in found.values())
    assert found["KVM"]["found"] == "a trial guest ran"
    assert found["QEMU"]["found"] == "1:10.0.2 (lab root)"
    assert found["perf hardware events"]["found"] == "PMU cpu_core"


def test_no_root(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = said(1)
    assert (found["root"]["status"], found["root"]["found"]) == ("missing", "user id 1000")
    assert "sudo ./skblab" in found["root"]["mend"]
    # Nothing is tried, and nothing remembered, without root.
    assert found["KVM"]["status"] == "limited" and "not tried yet" in found["KVM"]["found"]
    assert "as root" in found["KVM"]["mend"]
    assert not list((machine.folder / "cache").rglob("*.json"))


def test_another_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert line("machine", 1) == ("missing", "aarch64", "use an x86_64 machine")


def test_missing_packages(machine: Machine) -> None:
    machine.lacks("unshare", "setpriv", "mmdebstrap")
    (machine.folder / "keyring").unlink()
    lacking = ["mmdebstrap", "util-linux", "debian-archive-keyring"]
    assert line("host packages", 1) == (
        "missing",
        f"absent: {', '.join(lacking)}",
        f"apt-get install {' '.join(lacking)}",
    )


def test_one_cpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    status, found, mend = line("CPUs")
    assert (status, found.split(",")[0], mend) == ("limited", "1", "give this machine a second CPU")


@pytest.mark.parametrize(("free", "enough"), [(4, True), (3.9, False)])
def test_memory(machine: Machine, free: float, enough: bool) -> None:
    machine.free(disk=100, memory=free)
    status, found, mend = line("memory")
    assert found == f"{free:.1f} GiB available"
    assert (status, "swap" in mend) == (("good", False) if enough else ("limited", True))


@pytest.mark.parametrize(
    ("there", "free", "enough"),
    [
        (0, 12, True),
        (0, 11.9, False),
        (7, 5, True),
        (7, 4.9, False),
        (11, 4, True),
        (11, 3.9, False),
    ],
)
def test_disk(machine: Machine, there: float, free: float, enough: bool) -> None:
    machine.patch.setattr(checks, "taken", lambda: int(there * GIB))
    machine.free(disk=free, memory=32)
    check = said(0 if enough else 1)["disk"]
    assert (
        check["found"]
        == f"{free:.1f} GiB free at {machine.folder}/cache, which has {there:.1f} GiB"
    )
    assert check["means"].startswith("12 GiB are needed in all, 4 of them free for builds")
    assert "below 20.0 GiB (SKBLAB_CACHE_GIB)" in check["means"]
    assert check["status"] == ("good" if enough else "missing")
    assert ("SKBLAB_CACHE" in check["mend"]) == (not enough)


def test_no_lab_root_yet(machine: Machine) -> None:
    machine.root = None
    found = said(0)
    for name in ("lab root", "QEMU", "SystemTap"):
        assert (found[name]["status"], found[name]["mend"]) == ("limited", "./skblab lab-root")
    assert "needs the lab root" in found["KVM"]["found"]


def test_no_kvm(machine: Machine) -> None:
    (machine.folder / "kvm").unlink()
    status, found, mend = line("KVM")
    assert (status, found) == ("limited", f"no {machine.folder}/kvm")
    assert "firmware" in mend and "nested" in mend
    assert said(0)["KVM"]["means"].endswith("nothing has to be done")


def test_kvm_that_is_not_ours(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert line("KVM")[1] == f"{machine.folder}/kvm is not ours to open; use sudo"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exec sleep 60", "nothing ran within 0.2 s"),
        ("echo SeaBIOS; exec sleep 60", "nothing ran within 0.2 s"),
        ("echo 'qemu-system-x86_64: no VMX' >&2; exit 1", "no VMX"),
        ("exit 3", "QEMU ended with status 3"),
    ],
    ids=["hangs", "hangs-later", "refuses", "ends"],
)
def test_kvm_that_does_not_work(machine: Machine, script: str, why: str) -> None:
    machine.qemu(script)
    assert line("KVM")[:2] == ("limited", f"a trial guest failed ({why})")


def test_kvm_is_tried_once_in_a_boot(machine: Machine) -> None:
    machine.qemu("exit 3")
    assert line("KVM")[0] == "limited"
    machine.qemu("echo Booting from ROM")
    assert line("KVM")[0] == "limited"
    assert said(0, "--again")["KVM"]["status"] == "good"
    machine.qemu("exit 3")
    assert line("KVM")[0] == "good"
    kvm.remember_failure("the guest\nhung")
    assert line("KVM")[1] == "a guest did not boot: the guest hung"


BOOTS = "echo '[    0.000000] Linux version 6.12.118'"


def _cached(machine: Machine, name: str = "0123") -> None:
    kernel = machine.folder / "cache/kernels" / name
    kernel.mkdir(parents=True)
    (kernel / "bzImage").touch()


def test_firmware_that_runs_is_no_kernel_that_does(machine: Machine) -> None:
    """Seen on a virtual machine: SeaBIOS comes to its end under KVM, Linux never says a word."""
    assert line("KVM")[:2] == ("good", "a trial guest ran")
    # What is not finished is no kernel.
    _cached(machine, "0123.part")
    assert line("KVM")[1] == "a trial guest ran"
    _cached(machine)
    machine.qemu(f"case $1 in *accel=kvm*) exec sleep 60;; esac; {BOOTS}")
    assert line("KVM")[:2] == (
        *("limited", "a trial guest booted no kernel (nothing ran within 0.2 s)"),
    )
    machine.qemu(BOOTS)
    assert line("KVM")[0] == "limited"
    assert said(0, "--again")["KVM"]["found"] == "a trial guest booted"
    machine.qemu("exit 3")
    assert line("KVM")[0] == "good"


def test_a_kernel_that_boots_nowhere_says_nothing_of_kvm(machine: Machine) -> None:
    """A tree of the user's that dies before its console is the newest in the cache."""
    _cached(machine)
    machine.qemu("case $1 in *-kernel*) exit 3;; esac; echo Booting from ROM; exec sleep 60")
    assert line("KVM")[:2] == ("good", "a trial guest ran")


def test_what_is_known_of_kvm_is_told_without_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert line("KVM")[1] == "a trial guest ran"
    _cached(machine)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert kvm.verdict().why == "a trial guest ran"


def test_no_pmu(machine: Machine) -> None:
    (machine.folder / "events/cpu_core").rmdir()
    assert line("perf hardware events")[:2] == ("limited", "no hardware PMU")
    shutil.rmtree(machine.folder / "events")
    assert said(0)["perf hardware events"]["found"] == "no hardware PMU"


def test_a_kernel_that_cannot_be_probed(machine: Machine) -> None:
    where = machine.folder
    (where / "ftrace").write_text("0\n")
    assert line("probing this kernel") == (
        *("limited", "kernel.ftrace_enabled is 0"),
        "sysctl -w kernel.ftrace_enabled=1",
    )
    # As without ftrace, which also has that setting.
    (where / "ftrace").unlink()
    (where / "filesystems").write_text("nodev\tproc\n")
    assert line("probing this kernel") == (
        *("limited", f"no ftrace (no tracefs in {where}/filesystems)"),
        "boot a kernel with CONFIG_FUNCTION_TRACER, CONFIG_KPROBE_EVENTS",
    )
    (where / "kallsyms").write_text("0000 T ip_rcv\n0000 T init_net_x\n")
    (where / "btf").unlink()
    status, found, mend = line("probing this kernel")
    assert found == (
        f"no BTF ({where}/btf is absent); no ftrace (no tracefs in {where}/filesystems); "
        f"variables are not listed (no init_net in {where}/kallsyms)"
    )
    assert (status, mend.count("CONFIG_")) == ("limited", 4)
    assert "--on guest" in said(0)["probing this kernel"]["means"]
    (where / "kallsyms").unlink()
    (where / "filesystems").unlink()
    assert line("probing this kernel")[1] == found


def test_a_kernel_that_can_be_probed_but_for_some_options(machine: Machine) -> None:
    assert said(0)["probing this kernel"]["found"] == "BTF, ftrace, kprobes"
    (machine.folder / "tracing/tracing_on").unlink()
    status, found, mend = line("probing this kernel")
    assert (status, found) == ("limited", "BTF, ftrace, kprobes")
    assert mend == f"mount -t tracefs none {machine.folder}/tracing"
    (machine.folder / "events/kprobe").rmdir()
    status, found, mend = line("probing this kernel")
    assert (status, found) == ("limited", "BTF, ftrace, no kprobes")
    assert mend.endswith("; boot a kernel with CONFIG_KPROBE_EVENTS, if you want these")
    assert "by fentry; --kprobes" in said(0)["probing this kernel"]["means"]


def test_no_pcm(machine: Machine) -> None:
    (machine.folder / "msr").unlink()
    lacking = f"{machine.folder}/msr is absent"
    assert line("Intel PCM") == (
        *("limited", lacking),
        "modprobe msr, if you want to use these tools",
    )
    means = said(0)["Intel PCM"]["means"]
    assert means.endswith("skblab does not use them; nothing has to be done")
    machine.cpuinfo("vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n")
    status, found, mend = line("Intel PCM")
    assert found == f"the CPU is AuthenticAMD; this machine is virtual; {lacking}"
    assert status == "limited" and "modprobe" not in mend
    machine.cpuinfo("")
    assert line("Intel PCM")[1].startswith("the CPU is unknown; ")


def test_files_that_cannot_be_read(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.folder / "cpuinfo").unlink()
    status, found, mend = line("Intel PCM")
    file = machine.folder / "cpuinfo"
    assert (status, found) == ("limited", f"cannot look: {file}: No such file or directory")
    assert "/proc" in mend

    def refuse() -> None:
        raise PermissionError(13, "Permission denied", "/proc/meminfo")

    machine.cpuinfo(INTEL)
    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert line("memory")[1] == "cannot look: /proc/meminfo: Permission denied"


def test_the_table_says_what_to_do(machine: Machine) -> None:
    machine.lacks("mmdebstrap")
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    rows = [row.split() for row in done.stdout.splitlines()]
    at = next(i for i, row in enumerate(rows) if row[0] == "missing")
    assert rows[at][:3] == ["missing", "host", "packages"]
    assert rows[at + 1] == ["to", "mend:", "apt-get", "install", "mmdebstrap"]
    assert rows[-1][:2] == ["Not", "ready:"]
    machine.lacks()
    (machine.folder / "msr").unlink()
    done = CliRunner().invoke(app, ["doctor"])
    # What is not missing need not be mended.
    assert "to improve: modprobe msr" in done.stdout and "to mend" not in done.stdout
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (
        0,
        "Ready: `make demo` will work here.",
    )


def test_on_this_machine(skblab: Skblab, tmp_path: Path) -> None:
    """As in a clone's first minute: whatever this machine lacks, every check is named."""
    new = {"SKBLAB_CACHE": str(tmp_path)}
    as_json, table = skblab("doctor", "--json", env=new), skblab("doctor", env=new)
    document = json.loads(as_json.stdout)
    assert as_json.returncode == table.returncode == (0 if document["ready"] else 1)
    assert [check["name"] for check in document["checks"]] == list(checks.CHECKS)
    for check in document["checks"]:
        assert check["name"] in table.stdout
        assert bool(check["mend"]) == (check["status"] != "good"), check
    assert as_json.stderr == table.stderr == ""


class Bed:
    """A testbed of hosts that sends and forwards so much."""

    def __init__(self, *offered: Offered, loop: bool = False) -> None:
        self.offered, self.loop = list(offered), loop

    def offer(self, sending: Sending) -> Offered:
        found = self.offered.pop(0)
        assert sending.tester == (self.loop and bool(self.offered))
        return found


@pytest.mark.parametrize(
    ("forwarded", "status"), [(500_000, "good"), (999_997, "limited"), (1_000_000, "limited")]
)
def test_a_tester_is_good_if_the_router_does_not_keep_up(forwarded: int, status: str) -> None:
    """That three of a million get lost does not make the router the bottleneck."""
    bed = Bed(Offered(1_000_000, forwarded, forwarded, 1_000_000))
    alone, rate = hosts._rates(cast(Hosts, bed), {"tester generator": "pktgen"})
    assert (alone.status, rate.status) == ("limited", status)
    assert "no loop" in alone.found and "32 flows sent by pktgen" in rate.found
    assert bool(rate.mend) == (status == "limited")


def test_a_tester_with_a_loop_is_measured_alone() -> None:
    half = Offered(1_000_000, 700_000, 700_000, 500_000)
    bed = Bed(half, half, loop=True)
    alone, _ = hosts._rates(cast(Hosts, bed), {"tester generator": "pktgen"})
    assert alone.status == "good"
    assert alone.found.replace(FIXED_SPACE, " ").startswith("1 400 000 packets/s")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("good", "--hosts lab.toml` will run."),
        ("limited", "say little of the router until flow control and rate are mended."),
    ],
)
def test_hosts_whose_rates_say_little_are_told(
    monkeypatch: pytest.MonkeyPatch, status: checks.Status, said: str
) -> None:
    found = [
        checks.Check(name=name, status=status, found="it is so", means="thus")
        for name in (*hosts.SPOILING, "perf")
    ]
    monkeypatch.setattr(hosts, "run_all", lambda *_: found)
    done = CliRunner().invoke(app, ["doctor", "--hosts", "lab.toml"])
    assert done.exit_code == 0
    assert said in " ".join(done.stdout.split())
