# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of NAPI instances one by one, and of their threads: mode, CPUs, scheduling.

They go over netlink, where `threaded` of sysfs.py has one file for a whole device. A state is JSON:
for each device what each instance has, in the order of their IDs, and the CPUs that there are.
What was never set is taken for the kernel's default, for it cannot be unset again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from skblab.knobs import cpus
from skblab.knobs.base import UNABLE, Check, Family, Form, Unable, able
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, inside

BUSY = "busy-poll"
MODES = ("off", "on", BUSY)
# SCHED_NORMAL, SCHED_FIFO, SCHED_RR, SCHED_BATCH, in the order of their numbers.
POLICIES = ("other", "fifo", "rr", "batch")
REAL_TIME = ("fifo", "rr")
POLICY_EXAMPLES = ("fifo 50", "rr 1", "other", "other -5", "batch", "batch 10")
POLICY_WORDS = "such as 'fifo 50', 'rr 1', 'other', 'other -5' or 'batch 10'"
ALL, EACH = "all", "each"
NOT_LISTED = "no Python there, or a kernel that does not list NAPI instances"
_PROGRAM = "SKBLAB_PYTHON"
_REAL_TIME = re.compile(r"(fifo|rr) ([1-9]\d?)")
_NORMAL = re.compile(r"(other|batch)( -?\d\d?)?")
Shown = Mapping[str, Any]


@dataclass(frozen=True)
class Each:
    """Values that are one for all instances, or a list of those that they get in turn."""

    one: Callable[[str], bool]
    words: str
    examples: tuple[str, ...]

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if there is none like it."""
        several = value if isinstance(value, tuple) else (value,)
        if several and all(isinstance(part, str) and self.one(part) for part in several):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """Those of one value, and a list."""
        several = Form(self.examples[:2], "a list, for NAPI instances in turn")
        return [*map(Form, self.examples), several]

    def __str__(self) -> str:
        """Return them in words."""
        return f"{self.words}; or a list of such, for NAPI instances in turn"


def _is_cpus(text: str) -> bool:
    if text in (ALL, EACH):
        return True
    try:
        return bool(cpus.parse(text))
    except ValueError:
        return False


def is_policy(text: str) -> bool:
    """Whether a text is a policy with its priority or nice value."""
    normal = _NORMAL.fullmatch(text)
    return bool(_REAL_TIME.fullmatch(text) or (normal and -20 <= int(normal[2] or 0) <= 19))


def _mode(shown: Shown) -> str:
    return MODES[shown["threaded"]]


def _cpus(shown: Shown) -> str:
    return cpus.same(shown.get("cpus", shown["possible"]))


def _policy(shown: Shown) -> str:
    policy = POLICIES[shown.get("policy", 0)]
    return f"{policy} {shown.get('priority' if policy in REAL_TIME else 'nice', 0)}"


def _set_mode(state: str) -> str:
    return f"threaded={MODES.index(state)}"


def _set_cpus(state: str) -> str:
    return f"cpus={state}"


def _set_policy(state: str) -> str:
    policy, number = state.split()
    kind = "priority" if policy in REAL_TIME else "nice"
    return f"policy={POLICIES.index(policy)};{kind}={number}"


@dataclass(frozen=True)
class Napi:
    """A setting of NAPI instances: `found` tells it of what is shown, `asked` is for napi-set."""

    name: str
    sentence: str
    check: Check
    found: Callable[[Shown], str]
    asked: Callable[[str], str]
    needs: str
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print the instances of each device."""
        return "\n".join(
            _program(device, ["show"], f" || echo '{UNABLE} {device.name}: {NOT_LISTED}'")
            for device in machine.devices
        )

    def state(self, printed: str) -> str:
        """Return what each instance has; Unable if the kernel or the device has no such thing."""
        devices: dict[str, list[str]] = {}
        possible = ""
        for line in able(printed).splitlines():
            shown = json.loads(line)
            if "threaded" not in shown:
                raise Unable("this kernel sets threads for a whole device only: see threaded")
            if not (shown["settings"] or self.name == "napi_threaded"):
                raise Unable("this kernel has no settings of NAPI threads")
            possible = cpus.same(shown["possible"])
            devices.setdefault(shown["ifname"], []).append(self.found(shown))
        return json.dumps({"devices": devices, "possible": possible}, sort_keys=True)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable for CPUs that there are not."""
        possible = cpus.parse(json.loads(self.state(printed))["possible"])
        for wanted in value if isinstance(value, tuple) else (value,):
            if self.name == "napi_cpus" and wanted not in (ALL, EACH):
                cpus.present(cpus.parse(str(wanted)), possible)

    def likely(self, machine: Machine) -> str:
        """Return one instance for each device."""
        devices = {device.name: [""] for device in machine.devices}
        return json.dumps({"devices": devices, "possible": ALL})

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return what each instance is to have."""
        state = json.loads(before)
        several = [str(setting) for setting in (value if isinstance(value, tuple) else (value,))]
        for instances in state["devices"].values():
            for place in range(len(instances)):
                one = several[place % len(several)]
                if one == ALL:
                    one = state["possible"]
                elif one == EACH:
                    one = str(place % machine.cpus)
                elif self.name == "napi_cpus":
                    one = cpus.same(one)
                elif one in POLICIES:
                    one = f"{one} 0"
                instances[place] = one
        return json.dumps(state, sort_keys=True)

    def restore(self, machine: Machine, state: str) -> str:
        """Have napi-set set each instance."""
        devices = json.loads(state)["devices"]
        return "\n".join(
            _program(device, ["set", *map(self.asked, devices[device.name])], "")
            for device in machine.devices
            if device.name in devices
        )

    def by_hand(self, value: Value) -> str:
        """Return calls of the kernel's tool for its netlink families."""
        several = value if isinstance(value, tuple) else (value,)
        calls = [self._asking(str(value)) for value in several]
        return "; ".join(calls) + (", in turn" if len(calls) > 1 else "")

    def _asking(self, one: str) -> str:
        if one in (ALL, EACH):
            words = '"cpus": "CPUS"'
        else:
            state = f"{one} 0" if one in POLICIES else one
            parts = (part.partition("=") for part in self.asked(state).split(";"))
            words = ", ".join(
                f'"{name}": {number if name != "cpus" else json.dumps(number)}'
                for name, _, number in parts
            )
        meant = {ALL: ", with all CPUs", EACH: ", the first one with CPU 0, the next with 1, …"}
        call = f"ynl --family netdev --do napi-set --json '{{\"id\": NAPI, {words}}}'"
        return call + meant.get(one, "")


def _program(device: Device, words: list[str], after: str) -> str:
    """Return a call of napi_netlink.py in a device's namespace."""
    text = (resources.files(__package__) / "napi_netlink.py").read_text()
    what, *rest = words
    call = inside(device.netns, shlex.join(["python3", "-", what, device.name, *rest]))
    return f"{call} <<'{_PROGRAM}'{after}\n{text}{_PROGRAM}"


_PATCHED = "skblab's kernel patches"
_NAPIS = (
    Napi(
        "napi_threaded",
        "Which NAPI instances have a thread of their own, and which of these poll without pause "
        "(not with --exact).",
        Each(lambda mode: mode in MODES, " or ".join(map(repr, MODES)), MODES),
        _mode,
        _set_mode,
        f"{_PATCHED}, or Linux 6.17",
    ),
    Napi(
        "napi_cpus",
        "CPUs that the thread of a NAPI instance may run on.",
        Each(
            _is_cpus,
            f"'{ALL}', '{EACH}' (each its own), or CPUs such as '0-2,7'",
            (ALL, EACH, "0-2,7"),
        ),
        _cpus,
        _set_cpus,
        _PATCHED,
    ),
    Napi(
        "napi_policy",
        "Scheduling of a NAPI instance's thread: real-time priority, or nice value.",
        Each(
            is_policy,
            POLICY_WORDS,
            POLICY_EXAMPLES,
        ),
        _policy,
        _set_policy,
        _PATCHED,
    ),
)
FAMILY = Family(50, _NAPIS, alike=frozenset({"threaded", "napi_threaded"}))
