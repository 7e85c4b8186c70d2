# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are the scheduling of kernel threads: ksoftirqd's, and those of a NIC's interrupts.

A state is `THREAD=POLICY:NUMBER` words: the number is a real-time priority, or a nice value.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

from skblab.knobs import irq
from skblab.knobs.base import Check, Family, Form, Independent, Unable, able, joined, parted
from skblab.knobs.napi import POLICIES, POLICY_EXAMPLES, POLICY_WORDS, REAL_TIME, is_policy
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, script_inside


class Policy:
    """Values that are a policy with its priority or nice value."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if there is no such policy."""
        if isinstance(value, str) and is_policy(value):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """One for each policy, with and without a number."""
        return list(map(Form, POLICY_EXAMPLES))

    def __str__(self) -> str:
        """Return them in words."""
        return POLICY_WORDS


@dataclass(frozen=True)
class Threads(Independent):
    """The threads whose names begin with `begin`, where `IRQ` is each interrupt of a device."""

    name: str
    sentence: str
    begin: str
    needs: str = ""
    boot: bool = False
    check: Check = field(default_factory=Policy)

    @property
    def _of_devices(self) -> bool:
        return "IRQ" in self.begin

    def get(self, machine: Machine) -> str:
        """Print a line for each thread."""
        if not self._of_devices:
            return _script(None, "softirqs")
        return "\n".join(
            _script(device, f"of_device {shlex.quote(device.name)}") for device in machine.devices
        )

    def state(self, printed: str) -> str:
        """Return what each thread has; Unable without any, or for a policy that cannot be set."""
        found = {}
        for line in able(printed).splitlines():
            words = line.split()
            if len(words) != 5 or words[0] != "thread":
                raise ValueError(f"{line!r}: expected such as 'thread ksoftirqd/0 0 0 0'")
            _, name, policy, priority, nice = words
            if not policy.isdecimal() or int(policy) >= len(POLICIES):
                raise Unable(f"{name} has a policy of another kind: {policy}")
            said = POLICIES[int(policy)]
            found[name] = f"{said}:{priority if said in REAL_TIME else nice}"
        if not found:
            raise Unable("no such thread was found")
        return joined(sorted(found.items()))

    def likely(self, machine: Machine) -> str:
        """Return one thread, whose number is not known."""
        return f"{self.begin}NUMBER="

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the policy for each thread that there is."""
        policy, _, number = str(value).partition(" ")
        return joined((name, f"{policy}:{number or 0}") for name in parted(before))

    def restore(self, machine: Machine, state: str) -> str:
        """Set each thread's."""
        calls = []
        for name, scheduling in parted(state).items():
            policy, _, number = scheduling.partition(":")
            calls.append(
                f"schedule {shlex.quote(name)} {shlex.quote(policy)} {shlex.quote(number)}"
            )
        return _script(None, " &&\n".join(calls))

    def by_hand(self, value: Value) -> str:
        """Return calls of chrt and renice."""
        policy, _, number = str(value).partition(" ")
        threads = f"for pid in $(pgrep '^{self.begin}'); do"
        if policy in REAL_TIME:
            return f"{threads} chrt --{policy} -p {number} $pid; done"
        return f"{threads} chrt --{policy} -p 0 $pid; renice -n {number or 0} -p $pid; done"


def _script(device: Device | None, call: str) -> str:
    """Return a script that makes a call, in a shell of its own: others have functions, too."""
    ours = (resources.files(__package__) / "threads.sh").read_text()
    if device is None:
        return f"(\nset -u\n{ours}{call}\n)"
    return script_inside(device.netns, f"set -u\n{irq.functions()}{ours}{call}")


_THREADS = (
    Threads(
        "ksoftirqd_policy",
        "Scheduling of ksoftirqd, the threads that softirqs are left to under load: real-time "
        "priority, or nice value.",
        "ksoftirqd/",
    ),
    Threads(
        "irq_thread_policy",
        "Scheduling of the threads that handle the NIC's interrupts: real-time priority, or nice "
        "value.",
        "irq/IRQ-",
        needs="interrupts with threads (PREEMPT_RT, or threadirqs), and a NIC with some of its own",
    ),
)
FAMILY = Family(65, _THREADS)
