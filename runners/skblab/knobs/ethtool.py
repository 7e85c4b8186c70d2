# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of a NIC's driver: rings, queues, coalescing, offloads, by ethtool on every device.

A state is JSON: for each device the parameters of the knob, as `ethtool --json` names them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skblab.knobs.base import (
    DEVICE,
    ON_OFF,
    UNABLE,
    Between,
    Check,
    Family,
    Independent,
    Unable,
    able,
)
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, inside
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.whole import whole


@dataclass(frozen=True)
class Ethtool(Independent):
    """Parameters that all get the same value, on all devices.

    `show` and `change` are ethtool's options, such as -g and -G. `parameters` maps the name that
    `change` takes to the one that `show` prints. With `-max` after it that one is the most that the
    hardware can, if `show` prints it.
    """

    name: str
    sentence: str
    show: str
    change: str
    parameters: Mapping[str, str]
    check: Check
    # ethtool 6.14 prints channels as text only.
    text: bool = False
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print a document for each device."""
        return "\n".join(printing(device, self.show, text=self.text) for device in machine.devices)

    def _documents(self, printed: str) -> list[dict[str, Any]]:
        """Return every device's document; Unable if there is one that has none."""
        return _texts(able(printed)) if self.text else documents(printed)

    def state(self, printed: str) -> str:
        """Return the parameters of each device; Unable if one has none."""
        found: dict[str, dict[str, Any]] = {}
        for document in self._documents(printed):
            own = {name: _plain(document.get(shown)) for name, shown in self.parameters.items()}
            if missing := [name for name, value in own.items() if value is None]:
                raise Unable(f"{document['ifname']}: its driver has no {missing[0]}")
            found[document["ifname"]] = own
        return json.dumps(found, sort_keys=True)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable if a device has a lower maximum, or a feature that is fixed."""
        self.state(printed)
        for document in self._documents(printed):
            for shown in self.parameters.values():
                most, now = document.get(f"{shown}-max"), document[shown]
                where = f"{document['ifname']}: {shown}"
                if isinstance(most, int) and isinstance(value, int) and value > most:
                    raise Unable(f"{where} is at most {most}")
                if isinstance(now, dict) and now.get("fixed") and now["active"] != value:
                    raise Unable(f"{where} is fixed by the driver: {_word(now['active'])}")

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value for each parameter of each device."""
        own = {device.name: dict.fromkeys(self.parameters, value) for device in machine.devices}
        return json.dumps(own, sort_keys=True)

    def restore(self, machine: Machine, state: str) -> str:
        """Change parameter by parameter: a driver that lacks one of several refuses all."""
        own = json.loads(state)
        return "\n".join(
            f"{command(device, self.change, parameter, _word(value))} >/dev/null"
            for device in machine.devices
            for parameter, value in own.get(device.name, {}).items()
        )

    def by_hand(self, value: Value) -> str:
        """Return calls of ethtool."""
        return "; ".join(
            f"ethtool {self.change} {DEVICE} {parameter} {_word(value)}"
            for parameter in self.parameters
        )


def printing(device: Device, option: str, *, text: bool = False) -> str:
    """Return a command that prints a document of a device, or that there is none."""
    shown = command(device, option) if text else command(device, "--json", option)
    head = f"echo 'ifname: {device.name}'; " if text else ""
    return f"{head}{shown} || echo '{UNABLE} {device.name}: ethtool {option} is not supported'"


def command(device: Device, option: str, *rest: str) -> str:
    """Return a call of ethtool for a device."""
    words = [*rest[:1], device.name, *rest[1:]] if option.startswith("--") else [device.name, *rest]
    return inside(device.netns, shlex.join(["ethtool", option, *words]))


def _texts(printed: str) -> list[dict[str, Any]]:
    """Return documents of text: what is below `Pre-set maximums:` has `-max` in its name."""
    found: list[dict[str, Any]] = []
    suffix = ""
    for line in printed.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "ifname":
            found.append({name: value})
        elif not value:
            suffix = "-max" if name == "Pre-set maximums" else ""
        elif value.isdecimal():
            found[-1][f"{name.lower()}{suffix}"] = whole(value)
    return found


def documents(printed: str) -> list[dict[str, Any]]:
    """Return every device's document; Unable if there is one that has none."""
    able(printed)
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(printed.rstrip()):
        try:
            some, end = decoder.raw_decode(printed[at:].lstrip())
        except ValueError as error:
            raise SkblabError(f"ethtool printed no JSON: {printed[at : at + 60]!r}") from error
        at += end + len(printed[at:]) - len(printed[at:].lstrip())
        found += some
    return found


def _plain(value: object) -> object:
    """Return a parameter's value; features print more than that."""
    return value.get("active") if isinstance(value, dict) else value


def _word(value: Value) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


_MANY = 1 << 31
_RING, _CHANNELS, _COALESCING, _FEATURES = ("-g", "-G"), ("-l", "-L"), ("-c", "-C"), ("-k", "-K")
_NUMBER = Between(0, _MANY - 1, 50)
_ETHTOOLS = (
    *(
        Ethtool(
            *(name, sentence, *_RING, {side: side}, Between(1, _MANY - 1, 512)),
            needs="a NIC with rings",
        )
        for name, side, sentence in (
            ("ring_rx", "rx", "Descriptors in each receive ring."),
            ("ring_tx", "tx", "Descriptors in each transmit ring."),
        )
    ),
    Ethtool(
        "queues",
        "Queues of the NIC, each with an interrupt of its own; RSS spreads flows over them.",
        *_CHANNELS,
        {"combined": "combined"},
        Between(1, 4096, 2),
        text=True,
        needs="a NIC with several queues",
    ),
    *(
        Ethtool(
            *(name, sentence, *_COALESCING, {shown: shown}, check),
            needs="a NIC that can delay its interrupts",
        )
        for name, shown, sentence, check in (
            (
                "rx_usecs",
                "rx-usecs",
                "Microseconds that the NIC delays its interrupt for received packets.",
                _NUMBER,
            ),
            (
                "rx_frames",
                "rx-frames",
                "Received packets after which the NIC interrupts before rx_usecs are over.",
                _NUMBER,
            ),
            (
                "adaptive_rx",
                "adaptive-rx",
                "The driver adapts the delay of receive interrupts to the traffic.",
                ON_OFF,
            ),
            (
                "tx_usecs",
                "tx-usecs",
                "Microseconds that the NIC delays its interrupt for sent packets.",
                _NUMBER,
            ),
            (
                "tx_frames",
                "tx-frames",
                "Sent packets after which the NIC interrupts before tx_usecs are over.",
                _NUMBER,
            ),
            (
                "adaptive_tx",
                "adaptive-tx",
                "The driver adapts the delay of transmit interrupts to the traffic.",
                ON_OFF,
            ),
        )
    ),
    *(
        Ethtool(name, sentence, *_FEATURES, {word: shown}, ON_OFF)
        for name, word, shown, sentence in (
            (
                "gro",
                "gro",
                "generic-receive-offload",
                "The stack merges packets of a flow as they come in.",
            ),
            (
                "gso",
                "gso",
                "generic-segmentation-offload",
                "The stack cuts large packets as late as it can, just before the driver.",
            ),
            ("tso", "tso", "tcp-segmentation-offload", "The NIC cuts large TCP packets."),
            (
                "rx_checksum",
                "rx",
                "rx-checksumming",
                "The NIC verifies the checksums of received packets.",
            ),
            (
                "tx_checksum",
                "tx",
                "tx-checksumming",
                "The NIC fills in the checksums of sent packets.",
            ),
            (
                *("gro_list", "rx-gro-list", "rx-gro-list"),
                "GRO chains the packets of a flow unchanged, which takes less work to undo.",
            ),
            (
                *("udp_gro", "rx-udp-gro-forwarding", "rx-udp-gro-forwarding"),
                "GRO merges UDP packets that are forwarded, too.",
            ),
            (
                "gro_hw",
                "rx-gro-hw",
                "rx-gro-hw",
                "The NIC itself merges packets, in a form that can be forwarded.",
            ),
            (
                "lro",
                "lro",
                "large-receive-offload",
                "The NIC merges packets in a form that cannot be forwarded: "
                "for receivers, not for routers.",
            ),
        )
    ),
)
# With another number of queues a driver makes interrupts, NAPI instances and the RSS table anew.
FAMILY = Family(20, _ETHTOOLS, remaking=frozenset({"queues"}))
