# SPDX-License-Identifier: GPL-2.0-or-later
"""What a testbed is asked for: what it has to have, and the traffic that is sent through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, Field, model_validator

from skblab.knobs.values import Value
from skblab_analysis.base.checked import Finite

# Untagged Ethernet frames with their checksum, as RFC 2544 counts; IPv6's least is 66.
FRAMES = (64, 1518)
IPV6_LEAST = 66
# UDP source ports of flows, see generator.sh: pktgen has the port behind the last one in 16 bits.
FIRST_PORT = 1024
MOST_FLOWS = 0xFFFF - FIRST_PORT
Destinations = Literal["fixed", "random"]
# Frame sizes by their share in per cent, which is all that pktgen knows; random for each packet.
# AMS-IX: ranges of its statistics of 2015 as O. Luštický's study has them (chapter 4.3.1), each by
# the size in its middle, and rounded so that all are 100.
MIXES = {"ams-ix": {1518: 21, 1270: 26, 767: 3, 383: 3, 191: 4, 96: 43}}
Frame = Annotated[int, Field(ge=FRAMES[0], le=9216)] | Literal["ams-ix"]


def _ports(flows: int) -> int:
    if flows > MOST_FLOWS:
        raise ValueError(
            f"{flows} flows: each has a port of its own from {FIRST_PORT} on; expected at most "
            f"{MOST_FLOWS}"
        )
    return flows


Flows = Annotated[int, Field(ge=1), AfterValidator(_ports)]
# pktgen reads numbers of ten digits. As many or more are sent until the time is up.
MOST_PACKETS = 10**10


class Needs(Finite):
    """What the testbed must have. skblab says before the run if it does not."""

    queues: Annotated[int, Field(ge=1, description="receive queues of each NIC")] = 1
    cpus: Annotated[int, Field(ge=1, description="CPUs of the device under test")] = 1
    numa: Annotated[int, Field(ge=1, description="NUMA nodes of the device under test")] = 1


class Traffic(Finite):
    """What is sent. skblab measures every combination of these values."""

    family: Annotated[tuple[Literal[4, 6], ...], Field(description="IPv4, IPv6")] = (4,)
    frame: Annotated[
        tuple[Frame, ...],
        Field(
            min_length=1, description="bytes with Ethernet's checksum, as RFC 2544 counts; or a mix"
        ),
    ] = (64,)
    flows: Annotated[
        tuple[Flows, ...], Field(min_length=1, description="UDP source ports, in turn")
    ] = (1,)
    destinations: Annotated[
        tuple[Destinations, ...],
        Field(min_length=1, description="one address, or random ones for many routes"),
    ] = ("fixed",)

    @model_validator(mode="after")
    def _fits(self) -> Traffic:
        small = [size for size in self.frame if isinstance(size, int) and size < IPV6_LEAST]
        if 6 in self.family and small:
            raise ValueError(f"frame {small[0]}: the least of IPv6 with UDP is {IPV6_LEAST} bytes")
        return self

    def each(self) -> Iterator[Stream]:
        """Yield every combination."""
        kinds = product(self.family, self.frame, self.flows, self.destinations)
        for family, frame, flows, destinations in kinds:
            yield Stream(family=family, frame=frame, flows=flows, destinations=destinations)


class Stream(Finite):
    """One kind of traffic."""

    family: Literal[4, 6]
    frame: Frame
    flows: int
    destinations: Destinations = "fixed"

    def __str__(self) -> str:
        """Return it in words."""
        size = f"{self.frame} bytes" if isinstance(self.frame, int) else f"mix {self.frame}"
        flows = f"{self.flows} flow{'s' if self.flows > 1 else ''}"
        where = "" if self.destinations == "fixed" else f", {self.destinations} destinations"
        return f"IPv{self.family}, {size}, {flows}{where}"


class Asked(Protocol):
    """What of an experiment a testbed looks at, before it comes up."""

    @property
    def needs(self) -> Needs:
        """What it has to have."""

    @property
    def traffic(self) -> Traffic:
        """What is sent."""

    @property
    def baseline(self) -> Mapping[str, Value]:
        """The knobs of the baseline."""
