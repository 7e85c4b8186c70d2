# SPDX-License-Identifier: GPL-2.0-or-later
"""What knobs run on a machine, to the letter: somebody's host is set and put back with it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from importlib import resources

import golden_files

from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine
from skblab.testbeds import NETNS

BEYOND = ("192.0.2.2", "2001:db8::2")
HOST = Machine((Device("eth0"), Device("eth1", beyond=BEYOND)), cpus=4)
VALUES: tuple[Value, ...] = (
    *(True, 1, 0, 1280, False, "none", "all", "each", "on", "off", "other", "equal 2", "spread"),
    *("symmetric", "pfifo", "mq", "fq_codel", "default", "performance", "auto", "0-2", "softirq"),
    *(
        "40 on 2-3",
        "threaded",
        "busy-poll",
        "fifo 50",
        "other 5",
        "nft-input 5",
        "nft-forward-set 3",
    ),
    *("iptables-forward 2", "iptables-masquerade", "masquerade", "flowtable", "conntrack"),
)


def shown() -> Iterator[str]:
    """Return what each knob reads with, and what it sets each value with."""
    for name, knob in sorted(KNOBS.items()):
        yield f"## {name}"
        for where, machine in (("a namespace", NETNS.machine(4)), ("a host", HOST)):
            yield f"# read in {where}\n{knob.get(machine)}"
            # Only namespaces differ: one value shows how.
            for value in good(name)[: None if machine is not HOST else 1]:
                state = knob.wanted(machine, value, knob.likely(machine))
                yield f"# {value!r} in {where}: {state}\n{knob.restore(machine, state)}"


def good(name: str) -> list[Value]:
    """Return the values that a knob may have; of numbers two."""
    found: list[Value] = []
    for value in VALUES:
        with contextlib.suppress(ValueError):
            KNOBS[name].check(value)
            found.append(value)
    numbers = [value for value in found if type(value) is int]
    return [value for value in found if type(value) is not int or value in numbers[:2]]


def short(text: str) -> str:
    """Put names for the files that stand in the scripts."""
    for file in sorted(resources.files("skblab.knobs").iterdir(), key=lambda one: one.name):
        if file.name.endswith((".sh", ".py")) and (body := file.read_text().strip()):
            for form in (body, shlex.quote(body)[1:-1]):
                text = text.replace(form, f"<{file.name}>")
    return text


def test_golden_scripts() -> None:
    golden_files.check("knobs.txt", short("\n".join(shown()) + "\n"))
