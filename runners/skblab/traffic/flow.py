# SPDX-License-Identifier: GPL-2.0-or-later
"""A flow of packets in a traffic file, and what TCP flows have in common with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from skblab.traffic import generators
from skblab_analysis.base.checked import Finite
from skblab_analysis.base.whole import Whole


def _like(pattern: str, expected: str) -> AfterValidator:
    """Return what lets texts through that are as a pattern says, which is told in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r}: expected {expected}")
        return text

    return AfterValidator(check)


# What a kernel takes as the name of a namespace here, and a file as that of a host.
Host = Annotated[
    str, _like(r"[a-z][a-z0-9-]{0,14}", "at most 15 of a-z, 0-9 and -, and first a letter")
]
# A flow's name is of its rows, too.
FlowName = Annotated[
    str,
    _like(
        r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}",
        "at most 40 of A-Z, a-z, 0-9, blank, ., _ and -, and first a letter or digit",
    ),
]
Generator = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.:,*/_A-Z-]+$", max_length=200)]
Interval = Annotated[
    str,
    StringConstraints(max_length=200),
    _like(r"[a-z0-9.:,*/_A-Z-]+", "a time or a generator of times, such as 1ms or poisson:1ms"),
]
Realtime = Annotated[
    str,
    _like(r"(fifo|rr):[1-9][0-9]?", "fifo:PRIORITY or rr:PRIORITY, 1 to 99, such as fifo:50"),
]
LONGEST_SECONDS = 86_400
PORT = 5000
# What only our own program does, with what it has where nothing is asked for.
OWN = {
    "interval": None,
    "batch": 1,
    "segment": False,
    "spin": 0.0,
    "realtime": None,
    "sockets": "udp",
}
# Of a frame of pktgen without its payload, by IP version; its own header is the payload's least.
AROUND = {4: 46, 6: 66}
LEAST_SIZE = 16
# The largest UDP payload that one packet carries.
MOST_SIZE = {4: 65_507, 6: 65_527}
LARGEST = 1518
# The kernel takes this many source ports from 1024 on, and no time below a nanosecond.
MOST_PORTS = 64_511
MOST_RATE = 1_000_000_000
# And our own program no rate above this.
MOST_OWN_RATE = 2**32 - 1
# How packets are sent and received, in words.
BY_SOCKETS = {"udp": "", "packet": ", by packet sockets", "xdp": ", by AF_XDP"}
# Keys of which a flow has one at most, and what the two are.
PACES = {("rate", "interval"): "`rate` is of equal distances, `interval` of any"}
EXCLUDING = {
    **PACES,
    ("frame", "size"): "`frame` counts Ethernet's bytes, `size` the UDP payload alone",
}


class Between(Finite):
    """What goes from one host to another, whatever it is."""

    model_config = ConfigDict(populate_by_name=True)

    name: Annotated[FlowName, Field(description="name of the flow in all tables")]
    sender: Annotated[Host, Field(alias="from", description="host that sends; of TCP, the client")]
    receiver: Annotated[
        Host, Field(alias="to", description="host that receives; of TCP, the server")
    ]
    port: Annotated[int, Field(ge=1, le=65535, description="port of the receiver")] = PORT
    family: Annotated[Literal[4, 6], Field(description="IPv4, IPv6")] = 4
    seconds: Annotated[float, Field(gt=0, le=LONGEST_SECONDS, description="how long it lasts")] = (
        10.0
    )
    spin: Annotated[
        float,
        Field(
            ge=0, le=1, description="seconds of busy waiting before each time that something is due"
        ),
    ] = 0.0
    seed: Annotated[Whole, Field(description="of random sizes and times")] = 1
    realtime: Annotated[
        Realtime | None, Field(description="policy and priority of the sender, such as fifo:50")
    ] = None
    cpu: Annotated[int | None, Field(ge=0, description="the sender's only CPU")] = None
    receiver_realtime: Annotated[
        Realtime | None, Field(description="policy and priority of the receiver")
    ] = None
    receiver_cpu: Annotated[int | None, Field(ge=0, description="the receiver's only CPU")] = None

    @property
    def longest(self) -> float:
        """The longest time that it may take, in seconds."""
        return self.seconds

    @model_validator(mode="after")
    def _two_hosts(self) -> Between:
        if self.sender == self.receiver:
            raise ValueError(f"from and to are {self.sender!r}: expected two hosts")
        return self


def one_of(flow: Between, pairs: Mapping[tuple[str, str], str]) -> None:
    """Raise ValueError if a flow has both keys of a pair."""
    for (one, other), what in pairs.items():
        if getattr(flow, one) is not None and getattr(flow, other) is not None:
            raise ValueError(f"{one} and {other}: expected one of them ({what})")


def checked_interval(text: str | None) -> str | None:
    """Return times between what is sent as they are; ValueError if no generator has such."""
    if text is not None:
        generators.parse(text, "time")
    return text


class Flow(Between):
    """Packets from one host to another; what is not given is as `skblab traffic send` has it."""

    by: Annotated[
        Literal["skblab-traffic", "pktgen"],
        Field(description="what sends: our own program, or the kernel's generator, in a guest"),
    ] = "skblab-traffic"
    sockets: Annotated[
        Literal["udp", "packet", "xdp"],
        Field(
            description="what both ends use: UDP sockets, or packet sockets or AF_XDP of their "
            "devices, which take root"
        ),
    ] = "udp"
    ratep: Annotated[
        bool,
        Field(description="pktgen is given `rate`, and not a time in whole nanoseconds"),
    ] = False
    rate: Annotated[
        int | None,
        Field(ge=1, le=MOST_OWN_RATE, description="packets a second, at equal distances"),
    ] = None
    interval: Annotated[
        Interval | None, Field(description="times between packets, of a generator")
    ] = None
    frame: Annotated[
        int | Generator | None, Field(description="Ethernet frames with checksum, bytes")
    ] = None
    size: Annotated[
        int | Generator | None,
        Field(description=f"UDP payloads, bytes; {LEAST_SIZE} without `frame` and `size`"),
    ] = None
    flows: Annotated[int, Field(ge=1, le=65535, description="source ports, in turn")] = 1
    batch: Annotated[int, Field(ge=1, le=1024, description="packets given at once")] = 1
    segment: Annotated[bool, Field(description="the kernel cuts a batch into packets")] = False

    _is_interval = field_validator("interval")(checked_interval)

    @field_validator("frame", "size")
    @classmethod
    def _is_size(cls, given: int | str | None, info: ValidationInfo) -> int | str | None:
        """Refuse what is no generator, and one size that no packet has."""
        family = info.data.get("family")
        if given is None or family is None:
            return given
        one = generators.parse(str(given), "bytes").constant
        # Of many sizes, the program changes those that are too small or too large.
        around = AROUND[family] if info.field_name == "frame" else 0
        least, most = around + LEAST_SIZE, around + MOST_SIZE[family]
        # pktgen has bounds of its own.
        own = info.data.get("by") != "pktgen"
        if own and one is not None and not least <= one <= most:
            raise ValueError(f"{given}: expected {least} to {most} bytes with IPv{family}")
        return given

    @model_validator(mode="after")
    def _fits(self) -> Flow:
        one_of(self, EXCLUDING)
        if self.segment and self.one_size is None:
            raise ValueError("segment: expected one number of bytes as size or frame")
        if self.segment and self.of_devices:
            raise ValueError(
                f'segment with sockets = "{self.sockets}": expected one of them, the kernel cuts '
                "batches of UDP sockets alone"
            )
        if self.by == "pktgen":
            self._fits_pktgen()
        elif self.ratep:
            raise ValueError('ratep is a word of pktgen\'s: expected by = "pktgen" with it')
        return self

    def _fits_pktgen(self) -> None:
        for name, without in OWN.items():
            if getattr(self, name) != without:
                raise ValueError(f'{name} with by = "pktgen": expected none, pktgen has no such')
        if self.ratep and self.rate is None:
            raise ValueError("ratep without a rate: expected `rate`, packets a second")
        if self.rate is not None and self.rate > MOST_RATE:
            raise ValueError(f"rate = {self.rate} of pktgen: expected {MOST_RATE} at most")
        if self.flows > MOST_PORTS:
            raise ValueError(f"flows = {self.flows} of pktgen: expected {MOST_PORTS} at most")
        for name in ("frame", "size"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} of pktgen: expected one number of bytes")
        least = AROUND[self.family] + LEAST_SIZE
        if not least <= self.frame_bytes <= LARGEST:
            raise ValueError(
                f"frames of {self.frame_bytes} bytes by pktgen: expected {least} to {LARGEST} "
                f"with IPv{self.family}"
            )

    @property
    def of_devices(self) -> bool:
        """Whether our own program sends and receives frames of devices."""
        return self.sockets != "udp"

    @property
    def one_size(self) -> float | None:
        """The size or frame of all packets; None if they have several."""
        given = next((one for one in (self.frame, self.size) if one is not None), LEAST_SIZE)
        return generators.parse(str(given), "bytes").constant

    @property
    def frame_bytes(self) -> int:
        """Bytes of each frame with its checksum, of a flow whose packets have one size."""
        if self.frame is not None:
            return int(self.frame)
        return AROUND[self.family] + int(self.size if self.size is not None else LEAST_SIZE)

    def __str__(self) -> str:
        """Return what is sent, in words."""
        pace = f"{self.rate}/s" if self.rate else self.interval or "as fast as it goes"
        payload = f"payloads of {self.size or LEAST_SIZE} bytes"
        what = f"frames of {self.frame} bytes" if self.frame else payload
        by = ", by pktgen" if self.by == "pktgen" else BY_SOCKETS[self.sockets]
        return f"{self.name}, IPv{self.family}, {what}, {pace}{by}"
