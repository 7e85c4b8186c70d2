# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest's spec: what is refused, and the QEMU command line that it becomes."""

import subprocess
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from skblab.lab.guest.chosen import make_spec, spec_complaint
from skblab.lab.guest.spec import GuestSpec, init_script
from skblab.lab.labroot import Bind
from skblab_analysis.base.errors import UsageError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"exact": True, "cpus": 3}, "--exact counts the instructions of one or two CPUs"),
        ({"exact": True, "accel": "kvm", "cpus": 1}, "cannot use KVM"),
        ({"numa": 4, "cpus": 2}, "--numa 4 nodes need as many CPUs"),
        ({"cpus": 0}, "--cpus: "),
        ({"memory": 10}, "--memory: "),
    ],
)
def test_bad_specs_name_the_option(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        GuestSpec.model_validate(given)
    assert words in spec_complaint(caught.value)


def test_bad_spec_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="one or two CPUs") as caught:
        make_spec(exact=True, cpus=4)
    assert caught.value.exit_code == 2


def test_exact_mode_counts_on_one_processor_and_hands_out_no_host_randomness() -> None:
    line = " ".join(GuestSpec(exact=True, cpus=1).qemu("/skblab/root", [], "/s"))
    assert "-icount shift=0,sleep=off" in line
    assert "thread=single" in line
    assert "rdrand=off" in line
    # Whatever QEMU's version, the kernel finds the same processor, and not one of a hypervisor.
    assert "-cpu Broadwell-v4,hypervisor=off" in line
    assert "clocksource=tsc" in line


def test_cpus_take_turns_where_code_is_rewritten_under_load() -> None:
    def accel(spec: GuestSpec) -> str:
        words = spec.machine()
        return words[words.index("-accel") + 1]

    assert accel(GuestSpec()) == "tcg,thread=multi"
    assert accel(make_spec(tcg=True, one_thread=True)) == "tcg,thread=single"


def test_numa_nodes_share_out_all_cpus_and_all_memory() -> None:
    arguments = GuestSpec(cpus=3, memory=1025, numa=2).qemu("/r", [], "/s")
    sizes = [a.rsplit("size=")[1] for a in arguments if a.startswith("memory-backend-ram")]
    nodes = [a.rsplit("cpus=")[1] for a in arguments if a.startswith("node,")]
    assert sizes == ["513M", "512M"]
    assert nodes == ["0-0", "1-2"]


@pytest.mark.parametrize(
    ("cpus", "numa", "shape"),
    [(4, 1, "4"), (4, 2, "4,sockets=2,cores=2,threads=1"), (3, 2, "3,sockets=3,cores=1,threads=1")],
)
def test_no_socket_is_of_two_nodes(cpus: int, numa: int, shape: str) -> None:
    arguments = GuestSpec(cpus=cpus, numa=numa).qemu("/r", [], "/s")
    assert arguments[arguments.index("-smp") + 1] == shape


def test_the_root_is_never_writable() -> None:
    share = Bind(Path("/x"), "out", writable=True)
    arguments = GuestSpec().qemu("/skblab/root", [share], "/s")
    root = next(a for a in arguments if a.startswith("local,id=root,"))
    out = next(a for a in arguments if a.startswith("local,id=out,"))
    assert "readonly=on" in root
    assert "readonly=off" in out


def test_init_lists_the_shares() -> None:
    text = init_script([Bind(Path("/a"), "run", writable=True), Bind(Path("/b"), "tools")])
    assert text.startswith("shares='run:rw tools:ro'\n")


def test_init_waits_for_the_port_that_the_kernel_makes_late(tmp_path: Path) -> None:
    """On a busy host a guest's sshd once had no device, and ended three times at once."""
    text = init_script([])
    look = text[text.index("device=\nlooks=0\n") : text.index("# From here on")]
    ports, devices = tmp_path / "ports", tmp_path / "dev"
    ports.mkdir()
    devices.mkdir()
    look = look.replace("/sys/class/virtio-ports", str(ports)).replace("/dev/$", f"{devices}/$")
    script = f'set -e\n{look}\necho "$device"\n'
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as init:
        time.sleep(0.2)
        assert init.poll() is None
        # Another port, and one that has no name yet.
        for name, said in (("vport1p0", "other\n"), ("vport1p1", None)):
            (ports / name).mkdir()
            (devices / name).symlink_to("/dev/null")
            if said:
                (ports / name / "name").write_text(said)
        time.sleep(0.2)
        assert init.poll() is None
        (ports / "vport1p1" / "name").write_text("skblab.ssh\n")
        assert init.communicate(timeout=60)[0] == f"{devices}/vport1p1\n"
    assert init.returncode == 0


def test_init_does_not_wait_for_ever(tmp_path: Path) -> None:
    text = init_script([])
    look = text[text.index("device=\nlooks=0\n") : text.index("# From here on")]
    look = look.replace("/sys/class/virtio-ports", str(tmp_path))
    look = look.replace("/dev/kmsg", str(tmp_path / "kmsg")).replace("sleep 0.1", ":")
    done = subprocess.run(["sh", "-c", f"set -e\n{look}"], check=False, timeout=120)
    assert done.returncode == 1
    assert "no virtio port skblab.ssh" in (tmp_path / "kmsg").read_text()
