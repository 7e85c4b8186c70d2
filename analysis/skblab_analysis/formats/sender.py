# SPDX-License-Identifier: GPL-2.0-or-later
"""The contract with a sender that is a command of the user's: what it is asked, what it answers.

One JSON object each, on its standard input and its standard output, once for each trial.
docs/howto/use-another-tester.md says the same for who writes such a command.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.real import PositiveReal, Real
from skblab_analysis.base.whole import Count, Positive

Port = Annotated[int, Field(ge=1, le=0xFFFF)]


class _Part(Closed):
    # Strict: "5" is no number, whatever language wrote it.
    model_config = ConfigDict(strict=True, populate_by_name=True)


class FrameSize(_Part):
    """A size of frames with Ethernet's checksum and without a VLAN tag, and its share of all."""

    bytes: Positive
    weight: Positive


class Range(_Part):
    """IP addresses of which each packet has one at random, both ends included."""

    first: str
    last: str


class RateChange(_Part):
    """Another rate, packets a second, from so many seconds after the first packet on."""

    rate: PositiveReal
    after: Real


class SenderRequest(_Part):
    """What a command is asked to send in one trial.

    `path`: `router` is through the device under test, `tester` over the tester's loop. `device` is
    null where the kernel does not have the port, and the command counts what came back. `packets`
    and `rate` are null where there is no limit. `timed`: packets are timed at the sink.
    """

    schema_: Literal["skblab.sender-request/1"] = Field(
        alias="schema", default="skblab.sender-request/1"
    )
    path: Literal["router", "tester"]
    device: str | None
    namespace: str | None
    source_mac: str
    destination_mac: str
    vlan: Annotated[int, Field(ge=1, le=4094)] | None
    family: Literal[4, 6]
    source: str
    destination: str
    destinations: Range | None
    source_port: Port
    flows: Positive
    destination_port: Port
    frames: Annotated[tuple[FrameSize, ...], Field(min_length=1)]
    packets: Positive | None
    rate: PositiveReal | None
    seconds: PositiveReal
    then: RateChange | None
    timed: bool
    seed: Count


class RateStep(_Part):
    """The first packet at the other rate, counted from 0, and seconds from the first packet."""

    packet: Count
    seconds: Real


class SenderAnswer(_Part):
    """What a command answers: packets sent, those refused, and how long it sent.

    `refused` are not among those sent: the device had no room for them. `step` is there if the rate
    was to change. `received` is there if the command counts what came to the sink.
    """

    schema_: Literal["skblab.sender/1"] = Field(alias="schema")
    sent: Count
    refused: Count
    seconds: Real
    step: RateStep | None = None
    received: Count | None = None

    @model_validator(mode="after")
    def _took_time(self) -> Self:
        if self.sent + self.refused and not self.seconds:
            raise ValueError(f"{self.sent + self.refused} packets in 0 seconds")
        return self
