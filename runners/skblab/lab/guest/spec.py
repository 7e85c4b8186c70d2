# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest is made of, and the QEMU command line that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from skblab.lab.labroot import Bind
from skblab_analysis.base.checked import Closed

Accel = Literal["kvm", "tcg"]

# Of runners/init; its parent puts it into the guest's folder.
FIRST = "/skblab/run/first"

# ttyS0 carries the kernel's messages only; commands and terminals go over SSH.
KERNEL_ARGUMENTS = (
    "console=ttyS0,115200",
    "root=root",
    "rootfstype=9p",
    # The tree below is read-only and nobody else changes it: the guest may cache all of it.
    "rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose",
    "ro",
    "init=/skblab/bootstrap",
    # A dead kernel ends the guest at once (with -no-reboot), so that its parent sees it.
    "panic=-1",
    "oops=panic",
)
# One instruction is one nanosecond of the guest's clock only if the clock is the TSC, and two
# boots are alike only without random addresses.
EXACT_ARGUMENTS = (
    *("clocksource=tsc", "tsc=reliable", "nokaslr", "norandmaps"),
    # The clock jumps ahead while the guest waits for the host: no time limit means anything.
    *("sysctl.kernel.hung_task_timeout_secs=0", "rcupdate.rcu_cpu_stall_suppress=1"),
    # No option of the kernel's: by it scripts of a testbed know that they are in such a guest.
    "skblab.exact=1",
)
# The processor whose instructions are counted: the kernel patches its own code to suit it, so a
# figure is of one, and QEMU's "max" is none and differs by QEMU's version. Of a Broadwell (Xeon
# D-1500, E5 v4) the kernel chooses under emulation what it chooses on a real one: retpolines and
# page table isolation. Of later ones of Intel it cannot see that hardware is safe (the register
# ARCH_CAPABILITIES), and takes any of Intel's in a hypervisor for one that needs its_return_thunk;
# AMD's have a thunk behind every return, which hides where instructions go.
EXACT_PROCESSOR = "Broadwell-v4"
# Of more it was never seen how well figures repeat.
MOST_EXACT_CPUS = 2

HELD_PORT = (
    *("-chardev", "pipe,id=go,path=/skblab/run/go"),
    *("-device", "virtserialport,chardev=go,name=skblab.go"),
)

# Each by what it does: the emulated CPUs are told apart by that.
NAMED_THREADS = ("-name", "skblab,debug-threads=on")

# Emulated CPUs wait for the host's, on a busy one for tens of seconds: no fault of the kernel's.
STALL_SECONDS = 120
TCG_ARGUMENTS = (
    f"rcupdate.rcu_cpu_stall_timeout={STALL_SECONDS}",
    "watchdog_thresh=60",
    f"workqueue.watchdog_thresh={STALL_SECONDS}",
    # Or it panics where ten ticks do not come within 40 ms ("IO-APIC + timer doesn't work").
    "no_timer_check",
)
# identify_cpu() asks the CPU for its features anew, and for a moment believes other ones: that it
# has no five levels of page tables, or with no5lvl that it has. KASAN and KMSAN, asked then by an
# interrupt, look for an address's shadow in the wrong place. A CPU without such levels raises no
# question.
FOUR_LEVELS = ",la57=off"


class Nic(Closed):
    """A virtio network device, and the tap behind it in the network namespace that QEMU runs in.

    With several queues it has RSS; each queue of each direction has an interrupt of its own.
    """

    tap: Annotated[str, Field(pattern=r"^[a-z0-9]{1,15}$")]
    mac: Annotated[str, Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")]
    queues: Annotated[int, Field(ge=1, le=64)] = 1

    def qemu(self) -> list[str]:
        """Return QEMU's arguments."""
        tap = f"tap,id={self.tap},ifname={self.tap},script=no,downscript=no"
        device = f"virtio-net-pci,netdev={self.tap},mac={self.mac}"
        if self.queues > 1:
            tap += f",queues={self.queues}"
            # One for each queue of each direction, one for the control queue, one for changes.
            device += f",mq=on,vectors={2 * self.queues + 2},rss=on"
            # No hash=on: QEMU then spreads packets itself, not the tap by eBPF, and a queue of the
            # tap waits for ever once it has a packet for another queue that was full
            # (virtio_net_receive_rcu: only the queue that was full is flushed again).
        return ["-netdev", tap, "-device", device]


class GuestSpec(Closed):
    """A guest's size and mode. Sizes in MiB; `exact` needs one or two CPUs and no acceleration."""

    cpus: Annotated[int, Field(ge=1, le=64)] = 2
    memory: Annotated[int, Field(ge=512, le=1048576)] = 2048
    exact: bool = False
    numa: Annotated[int, Field(ge=1, le=8)] = 1
    # Further NUMA nodes, which have memory and no CPU.
    memory_nodes: Annotated[int, Field(ge=0, le=1)] = 0
    accel: Accel = "tcg"
    arguments: tuple[str, ...] = ()
    # A kernel with debugging options: under emulation it takes minutes to boot.
    patient: bool = False
    # CPUs of TCG that take turns in one thread of the host. With a thread for each, QEMU (10.0) may
    # run an instruction that the kernel has rewritten since: store_helper() drops the translation
    # before it writes, and another CPU translates the old one again in between. The kernel then
    # ends with "Oops: int3". Where code is rewritten under load, say so.
    one_thread: bool = False
    # Its sshd says nothing by itself: where allocations are made to fail, an answer that cannot be
    # sent ends the connection.
    silent: bool = False
    # A plugin of QEMU's, as its -plugin takes it; paths are those inside the lab root's sandbox.
    plugin: str | None = None
    # Of boots that are samples, which one. Each begins in a snapshot of its own, as it would in a
    # boot of its own.
    sample: Annotated[int, Field(ge=0)] = 0
    nics: tuple[Nic, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.exact and self.cpus > MOST_EXACT_CPUS:
            raise ValueError(
                f"--exact counts the instructions of one or two CPUs, --cpus {self.cpus} was asked "
                "for; leave --cpus out or give 1 or 2"
            )
        if self.exact and self.accel != "tcg":
            raise ValueError("--exact counts instructions under TCG; it cannot use KVM")
        if self.plugin is not None and self.accel != "tcg":
            raise ValueError("a plugin sees what TCG translates; it cannot see into KVM")
        if self.numa > self.cpus:
            raise ValueError(
                f"--numa {self.numa} nodes need as many CPUs, --cpus is {self.cpus}; "
                f"add --cpus {self.numa} or more"
            )
        return self

    def qemu(
        self,
        root_inside: str,
        shares: Sequence[Bind],
        socket: str,
        *,
        initrd: bool = False,
        held: bool = False,
    ) -> list[str]:
        """Return the QEMU command line; paths are those inside the lab root's sandbox.

        With `initrd` the kernel has one, which mounts the root. With `held` the guest has a port by
        which a word comes that it waits for, and the console's log goes on where it ends.
        """
        append = ",append=on" if held else ""
        return [
            "qemu-system-x86_64",
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *NAMED_THREADS,
            *self.machine(),
            *(("-plugin", self.plugin) if self.plugin is not None else ()),
            *self._numa_nodes(),
            *("-kernel", "/skblab/kernel/bzImage", "-append", " ".join(self.kernel_arguments())),
            *(("-initrd", "/skblab/kernel/initrd") if initrd else ()),
            *("-chardev", f"file,id=console,path=/skblab/run/console.log{append}"),
            *("-serial", "chardev:console"),
            *("-device", "virtio-serial-pci"),
            *("-chardev", f"socket,id=ssh,path={socket},server=on,wait=off"),
            *("-device", "virtserialport,chardev=ssh,name=skblab.ssh"),
            *(HELD_PORT if held else ()),
            *(argument for nic in self.nics for argument in nic.qemu()),
            *_share("root", root_inside, writable=False),
            *(
                item
                for share in shares
                for item in _share(share.point, share.inside, writable=share.writable)
            ),
        ]

    def kernel_arguments(self) -> list[str]:
        """Return the kernel command line, word by word."""
        slow = TCG_ARGUMENTS if self.accel == "tcg" else ()
        mode = EXACT_ARGUMENTS if self.exact else slow
        return [*KERNEL_ARGUMENTS, *mode, *self.arguments]

    def machine(self) -> list[str]:
        """Return the QEMU arguments that decide speed and clock."""
        common = ["-M", "q35", "-m", f"{self.memory}M", "-smp", self._processors()]
        if self.exact:
            # Virtual time is the instruction count: the real-time clock must follow it, and the
            # CPU must not hand out host randomness.
            return [
                *common,
                *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
                *("-cpu", f"{EXACT_PROCESSOR},hypervisor=off,rdrand=off,rdseed=off"),
                *("-rtc", "base=2025-01-01T00:00:00,clock=vm"),
            ]
        levels = FOUR_LEVELS if self.patient else ""
        if self.accel == "kvm":
            return [*common, "-accel", "kvm", "-cpu", f"host{levels}"]
        threads = "single" if self.one_thread else "multi"
        return [*common, "-accel", f"tcg,thread={threads}", "-cpu", f"max{levels}"]

    def _processors(self) -> str:
        if self.numa == 1:
            return str(self.cpus)
        # Processors of one socket that are of several nodes make the kernel warn (topology_sane()).
        even = self.cpus % self.numa == 0
        sockets, cores = (self.numa, self.cpus // self.numa) if even else (self.cpus, 1)
        return f"{self.cpus},sockets={sockets},cores={cores},threads=1"

    def _numa_nodes(self) -> list[str]:
        nodes = self.numa + self.memory_nodes
        if nodes == 1:
            return []
        arguments: list[str] = []
        # A plugin that reads the guest's memory finds each node's by the kind of file.
        kind = "ram" if self.plugin is None else "memfd"
        for node in range(nodes):
            # The first nodes take what does not divide evenly.
            size = self.memory // nodes + (node < self.memory % nodes)
            first = node * self.cpus // self.numa
            last = (node + 1) * self.cpus // self.numa - 1
            cpus = f",cpus={first}-{last}" if node < self.numa else ""
            arguments += [
                *("-object", f"memory-backend-{kind},id=node{node},size={size}M"),
                *("-numa", f"node,nodeid={node},memdev=node{node}{cpus}"),
            ]
        return arguments


def _share(tag: str, inside: str, *, writable: bool) -> list[str]:
    mode = "off" if writable else "on"
    return [
        "-fsdev",
        f"local,id={tag},path={inside},security_model=none,readonly={mode},multidevs=remap",
        "-device",
        f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    ]
