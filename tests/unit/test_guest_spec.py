# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest's spec: what is refused, and the QEMU command line that it becomes."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from skblab.lab.guest.chosen import make_spec, spec_complaint
from skblab.lab.guest.spec import GuestSpec
from skblab.lab.kernel.model import FLAVOURS, Flavour
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


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_kernel_that_looks_for_faults_has_more_time(flavour: Flavour) -> None:
    spec = make_spec(tcg=True, flavour=flavour)
    looks = flavour in {"debug", "kcsan", "kmsan"}
    assert spec.patient is looks
    # And a processor of which nobody believes that it has five levels of page tables.
    for accel, processor in (("tcg", "max"), ("kvm", "host")):
        words = spec.model_copy(update={"accel": accel}).machine()
        assert words[words.index("-cpu") + 1] == processor + (",la57=off" if looks else "")


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


def test_a_node_of_memory_alone_has_no_cpu() -> None:
    """A plugin finds each node's memory by its kind of file."""
    arguments = GuestSpec(cpus=1, memory=1024, memory_nodes=1, plugin="/p.so").qemu("/r", [], "/s")
    assert [a for a in arguments if a.startswith(("memory-backend", "node,"))] == [
        "memory-backend-memfd,id=node0,size=512M",
        "node,nodeid=0,memdev=node0,cpus=0-0",
        "memory-backend-memfd,id=node1,size=512M",
        "node,nodeid=1,memdev=node1",
    ]


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
