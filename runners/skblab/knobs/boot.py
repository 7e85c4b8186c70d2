# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that only a boot sets: the kernel, its command line, and what its init does first.

On a machine that runs they are only read: one that is not as wanted is said to be out of reach. A
guest is booted with them: `start` tells how.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

from skblab.knobs import cpus
from skblab.knobs.base import (
    DEVICE,
    ON_OFF,
    UNABLE,
    Check,
    Choice,
    Family,
    Independent,
    Unable,
    able,
)
from skblab.knobs.values import Value, text
from skblab.machine.device import Machine, script_inside

Flavour = Literal["stock", "rt"]
STOCK: Flavour = "stock"
RT: Flavour = "rt"
# Has router.sh make a VRF, which has the same name of it.
FLAG = "/run/skblab-vrf"
SELINUX = ("off", "permissive", "enforcing")


def _nothing(value: Value) -> str:
    return ""


def _plain(printed: str) -> str:
    return printed.strip()


def _list(value: Value) -> str:
    """Return CPUs as the kernel writes them."""
    return cpus.NONE if value == cpus.NONE else cpus.same(str(value))


def _listed(printed: str) -> str:
    """Return a file's CPUs; the kernel writes (null) for nohz_full without any."""
    return _list(printed.strip().replace("(null)", "") or cpus.NONE)


def _argument(name: str, default: str) -> Callable[[str], str]:
    """Return what reads an argument of the kernel's: the last one counts."""
    pattern = re.compile(rf"(?:^|\s){name}=(\S+)")

    def read(printed: str) -> str:
        found: list[str] = pattern.findall(printed)
        return found[-1] if found else default

    return read


def _preemption(printed: str) -> str:
    """Return the model in parentheses, as in `none (voluntary) full`."""
    found = re.search(r"\((\w+)\)", printed)
    if found is None:
        raise Unable(f"the kernel does not tell its preemption model: {printed.strip()!r}")
    return found[1]


def _flavour(printed: str) -> str:
    return RT if "PREEMPT_RT" in printed else STOCK


def _patched(printed: str) -> str:
    # A name of the user's own comes behind it.
    found = re.search(r"-(skblab|plain)\b", printed)
    return text(found is not None and found[1] == "skblab")


@dataclass(frozen=True)
class BootKnob(Independent):
    """A setting of a boot.

    `show` prints what `read` makes the state of, and `means` is the state of a value. `arguments`
    are the kernel's for a value, words with spaces between them; `first` is a script that runs
    before anything else does.
    """

    name: str
    sentence: str
    check: Check
    show: str
    read: Callable[[str], str] = _plain
    means: Callable[[Value], str] = text
    arguments: Callable[[Value], str] = _nothing
    first: Callable[[Value], str] = _nothing
    # What sets it that is no argument of the kernel's, in words.
    other: Callable[[Value], str] = _nothing
    needs: str = ""
    boot: bool = True

    def get(self, machine: Machine) -> str:
        """Print what tells the state."""
        return self.show

    def state(self, printed: str) -> str:
        """Return the state."""
        return self.read(able(printed))

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable if the machine was not booted with it."""
        if (found := self.state(printed)) != self.means(value):
            raise Unable(f"is {found}; only a boot can make it {self.means(value)}")

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the state of a value."""
        return self.means(value)

    def restore(self, machine: Machine, state: str) -> str:
        """Return a script that fails: what `fits` has let through needs nothing."""
        return f"echo 'only a boot can make it {state}' >&2; exit 1"

    def by_hand(self, value: Value) -> str:
        """Return what to boot with."""
        arguments = self.arguments(value)
        said = [f"kernel argument {arguments}" if arguments else "", self.other(value)]
        return "; ".join(filter(None, said)) or f"no {self.name}= among the kernel's arguments"


@dataclass(frozen=True)
class Vrf(BootKnob):
    """Whether the router's devices are in a VRF, which router.sh makes if FLAG is there.

    It takes a boot of its own: with the first VRF come a rule for all look-ups of routes, and a
    mark that there are rules, and the mark stays when VRF and rule have gone.
    """

    def get(self, machine: Machine) -> str:
        """Print a document for each device."""
        return "\n".join(
            script_inside(device.netns, f"ip -d -j link show dev {device.name}")
            for device in machine.devices
        )


def _in_vrf(printed: str) -> str:
    """Return whether all devices are in a VRF, or none; some is neither."""
    links = [link for line in printed.splitlines() for link in json.loads(line)]
    found = {link.get("linkinfo", {}).get("info_slave_kind") == "vrf" for link in links}
    return text(found == {True}) if len(found) < 2 else "on of some devices only"


def _cpu_argument(name: str) -> Callable[[Value], str]:
    return lambda value: "" if value == cpus.NONE else f"{name}={_list(value)}"


def _selinux_argument(value: Value) -> str:
    # No such module as `none`: AppArmor, which would be there without SELinux, is not either.
    return f"security={'none' if value == 'off' else 'selinux'}"


def _selinux(call: str) -> str:
    return f"(\n{(resources.files(__package__) / 'selinux.sh').read_text()}{call}\n)"


_CPU_FOLDER = "/sys/devices/system/cpu"
_PREEMPT = "/sys/kernel/debug/sched/preempt"
BOOTS: tuple[BootKnob, ...] = (
    BootKnob(
        "kernel",
        "Flavour of the kernel: like the distribution's, or fully preemptible (PREEMPT_RT).",
        Choice((STOCK, RT)),
        "uname -v",
        _flavour,
        other=lambda value: f"a kernel with{'' if value == RT else 'out'} CONFIG_PREEMPT_RT",
    ),
    BootKnob(
        "patches",
        "Whether the kernel has skblab's patches.",
        ON_OFF,
        "uname -r",
        _patched,
        other=lambda value: f"a kernel with{'' if value else 'out'} the series in patches/",
    ),
    BootKnob(
        "preempt",
        "When a task in the kernel lets others run (not PREEMPT_RT).",
        Choice(("none", "voluntary", "full", "lazy")),
        f"cat {_PREEMPT} 2>/dev/null || echo '{UNABLE} the kernel has one preemption model only'",
        _preemption,
        arguments=lambda value: f"preempt={value}",
        needs="a kernel with PREEMPT_DYNAMIC, debugfs",
    ),
    BootKnob(
        "mitigations",
        "Mitigations of processor faults that leak data, such as Spectre.",
        Choice(("auto", "off", "auto,nosmt")),
        "cat /proc/cmdline",
        _argument("mitigations", "auto"),
        arguments=lambda value: f"mitigations={value}",
    ),
    BootKnob(
        "isolcpus",
        "CPUs on which only tasks run that are bound to them.",
        cpus.Cpus(),
        f"cat {_CPU_FOLDER}/isolated",
        _listed,
        _list,
        _cpu_argument("isolcpus"),
        needs="more than one CPU",
    ),
    BootKnob(
        "nohz_full",
        "CPUs without a timer tick while one task runs there; RCU callbacks run elsewhere.",
        cpus.Cpus(),
        f"cat {_CPU_FOLDER}/nohz_full 2>/dev/null || echo '{UNABLE} this kernel has no nohz_full'",
        _listed,
        _list,
        _cpu_argument("nohz_full"),
        needs="more than one CPU",
    ),
    BootKnob(
        "rcu_nocbs",
        "CPUs whose RCU callbacks run in threads, which may be on other CPUs.",
        cpus.Cpus(),
        # The threads do not tell: parked ones are there for other CPUs, too.
        "cat /proc/cmdline",
        lambda printed: _list(_argument("rcu_nocbs", cpus.NONE)(printed)),
        _list,
        _cpu_argument("rcu_nocbs"),
    ),
    BootKnob(
        "irqaffinity",
        "CPUs that interrupts go to unless somebody places them.",
        cpus.Cpus(),
        "cat /proc/cmdline",
        lambda printed: _list(_argument("irqaffinity", cpus.NONE)(printed)),
        _list,
        _cpu_argument("irqaffinity"),
        needs="more than one CPU",
    ),
    BootKnob(
        "selinux",
        "SELinux with the installed policy. 'off' switches AppArmor off as well.",
        Choice(SELINUX),
        _selinux("show"),
        arguments=_selinux_argument,
        first=lambda value: "" if value == "off" else _selinux(f"begin {value}"),
        other=lambda value: {"permissive": "setenforce 0", "enforcing": "setenforce 1"}.get(
            str(value), ""
        ),
        needs="an SELinux policy there",
    ),
    Vrf(
        "vrf",
        "A VRF that the router's ports are in: their packets' routes are looked up in its table.",
        ON_OFF,
        "",
        _in_vrf,
        first=lambda value: f": >{FLAG}" if value else "",
        other=lambda value: (
            f"with each {DEVICE} in a VRF before it has addresses: ip link add VRF type vrf table "
            f"10; ip link set VRF up; ip link set {DEVICE} master VRF"
            if value
            else "without any VRF"
        ),
        needs="CONFIG_NET_VRF",
    ),
)
FAMILY = Family(130, BOOTS)
_BY_NAME = {knob.name: knob for knob in BOOTS}


@dataclass(frozen=True)
class Start:
    """How a guest is booted: which kernel, its further arguments, and what runs first in it."""

    flavour: str = STOCK
    patches: bool = True
    arguments: tuple[str, ...] = ()
    scripts: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        """Return it in words."""
        kernel = f"kernel {self.flavour}, {'with' if self.patches else 'without'} patches"
        return ", ".join([kernel, *self.arguments])


def start(knobs: Mapping[str, Value], flavour: str = STOCK, *, patches: bool = True) -> Start:
    """Return how to boot with these knobs; the kernel is the given one, unless one of them is."""
    chosen = [(_BY_NAME[name], value) for name, value in knobs.items() if name in _BY_NAME]
    return Start(
        flavour=str(knobs.get("kernel", flavour)),
        patches=bool(knobs.get("patches", patches)),
        arguments=tuple(word for knob, value in chosen for word in knob.arguments(value).split()),
        scripts=tuple(script for knob, value in chosen if (script := knob.first(value))),
    )
