# SPDX-License-Identifier: GPL-2.0-or-later
"""A traffic file: which flows run between which hosts, and what settings change of them.

The first setting is what others are compared with. All flows of a trial run at once.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from skblab.machine.transport.host import is_host
from skblab.traffic import generators
from skblab_analysis.base import tomlfile
from skblab_analysis.base.checked import Finite
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.published import Published
from skblab_analysis.formats.published import read as read_published
from skblab_analysis.formats.run import RunName
from skblab_analysis.trials.rows import Setting as SettingName


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
# What is of packets, whoever sends them: a setting cannot change it.
FIXED = frozenset({"name", "from", "to", "port", "family"})
# What only our own program does, with what it has where nothing is asked for.
OWN = {"interval": None, "batch": 1, "segment": False, "spin": 0.0, "realtime": None}
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
# Keys of which a flow has one at most, and what the two are.
EXCLUDING = {
    ("rate", "interval"): "`rate` is of equal distances, `interval` of any",
    ("frame", "size"): "`frame` counts Ethernet's bytes, `size` the UDP payload alone",
}


def _is_host(name: str) -> str:
    if not is_host(name):
        raise ValueError(f"{name!r}: expected a host such as root@a")
    return name


class Machine(Finite):
    """A machine over SSH."""

    ssh: Annotated[
        str,
        Field(description="the machine, as ssh takes it, such as root@a"),
        AfterValidator(_is_host),
    ]
    address: Annotated[
        tuple[IPv4Address | IPv6Address, ...],
        Field(min_length=1, description="addresses that packets for it go to"),
    ]


class Flow(Finite):
    """Packets from one host to another; what is not given is as `skblab traffic send` has it."""

    model_config = ConfigDict(populate_by_name=True)

    name: Annotated[FlowName, Field(description="name of the flow in all tables")]
    sender: Annotated[Host, Field(alias="from", description="host that sends")]
    receiver: Annotated[Host, Field(alias="to", description="host that receives")]
    port: Annotated[int, Field(ge=1, le=65535, description="UDP port of the receiver")] = PORT
    family: Annotated[Literal[4, 6], Field(description="IPv4, IPv6")] = 4
    by: Annotated[
        Literal["skblab-traffic", "pktgen"],
        Field(description="what sends: our own program, or the kernel's generator, in a guest"),
    ] = "skblab-traffic"
    ratep: Annotated[
        bool,
        Field(description="pktgen is given `rate`, and not a time in whole nanoseconds"),
    ] = False
    seconds: Annotated[float, Field(gt=0, le=LONGEST_SECONDS, description="how long it lasts")] = (
        10.0
    )
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
    spin: Annotated[
        float, Field(ge=0, le=1, description="seconds before a packet's time in which it polls")
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

    @field_validator("interval")
    @classmethod
    def _is_interval(cls, text: str | None) -> str | None:
        if text is not None:
            generators.parse(text, "time")
        return text

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
        for (one, other), what in EXCLUDING.items():
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other}: expected one of them ({what})")
        if self.segment and self.one_size is None:
            raise ValueError("segment: expected one number of bytes as size or frame")
        if self.sender == self.receiver:
            raise ValueError(f"from and to are {self.sender!r}: expected two hosts")
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
        by = ", by pktgen" if self.by == "pktgen" else ""
        return f"{self.name}, IPv{self.family}, {what}, {pace}{by}"


class Setting(Finite):
    """A setting: what it changes of every flow."""

    name: Annotated[
        SettingName, Field(min_length=1, max_length=60, description="its name in all tables")
    ]
    flow: Annotated[
        dict[str, Any], Field(description="keys of flows with the values that they have with it")
    ] = {}  # noqa: RUF012 - pydantic copies it
    kernel: Annotated[
        Literal["stock", "rt"] | None,
        Field(description="flavour of the guest's kernel; only where hosts are in a guest"),
    ] = None
    published: Annotated[
        str, Field(description="the experiment of the published figures that it repeats")
    ] = ""


class TrafficFile(Finite):
    """A traffic file."""

    name: Annotated[RunName, Field(description="name of the run's folder: a-z, 0-9, _ and -")]
    question: Annotated[str, Field(min_length=1, description="what the report answers")]
    seed: Annotated[Whole, Field(description="of the random order of settings")] = 1
    repeats: Annotated[int, Field(ge=1, le=1000, description="how often each is measured")] = 3
    ssh_config: Annotated[
        str | None, Field(description="a configuration file of ssh's, instead of the user's")
    ] = None
    where: Annotated[
        Literal["here", "guest"],
        Field(description="whose namespaces unnamed hosts are: this machine's, or a guest's"),
    ] = "here"
    hosts: Annotated[
        dict[Host, Machine],
        Field(description="machines by name; without any, hosts are namespaces of one machine"),
    ] = {}  # noqa: RUF012 - pydantic copies it
    flow: Annotated[tuple[Flow, ...], Field(min_length=1)]
    setting: tuple[Setting, ...] = (Setting(name="baseline"),)
    published: Annotated[
        str, Field(description="published figures, a CSV file beside this one")
    ] = ""
    differs: Annotated[str, Field(description="what is not as in the published study")] = ""

    @model_validator(mode="after")
    def _whole(self) -> TrafficFile:
        for what, names in (
            ("flow", [flow.name for flow in self.flow]),
            ("setting", [setting.name for setting in self.setting]),
        ):
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"{what}: two are named {min(twice)!r}")
        ends = [(flow.receiver, flow.port) for flow in self.flow]
        if len(set(ends)) < len(ends):
            raise ValueError("flow: two go to one port of one host: give one another port")
        if self.hosts:
            for flow in self.flow:
                self._reaches(flow)
        for setting in self.setting:
            self._check(setting)
        return self

    def _reaches(self, flow: Flow) -> None:
        for name in (flow.sender, flow.receiver):
            if name not in self.hosts:
                raise ValueError(f"flow {flow.name!r}: [hosts] has no {name!r}")
        versions = {address.version for address in self.hosts[flow.receiver].address}
        if flow.family not in versions:
            raise ValueError(
                f"flow {flow.name!r}: {flow.receiver!r} has no IPv{flow.family} address"
            )

    def _check(self, setting: Setting) -> None:
        if setting.kernel and (self.hosts or self.where == "here"):
            raise ValueError(
                f"setting {setting.name!r}: kernel = {setting.kernel!r} takes a guest: expected "
                'where = "guest" and no [hosts]'
            )
        if fixed := FIXED & set(setting.flow):
            raise ValueError(
                f"setting {setting.name!r}: {min(fixed)} is the same with every setting: expected "
                "other keys of a flow"
            )
        flows = []
        for flow in self.flow:
            try:
                flows.append(changed(flow, setting))
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                place = ".".join(["flow", *map(str, fault["loc"])])
                why = fault["msg"].removeprefix("Value error, ")
                raise ValueError(
                    f"setting {setting.name!r}: {place}: {why}"
                    if fault["loc"]
                    else f"setting {setting.name!r}: {why}"
                ) from None
        senders = [flow.sender for flow in flows if flow.by == "pktgen"]
        if senders and (self.hosts or self.where == "here"):
            raise ValueError(
                f'setting {setting.name!r}: by = "pktgen" takes a guest: expected where = "guest" '
                "and no [hosts]"
            )
        if twice := {name for name in senders if senders.count(name) > 1}:
            raise ValueError(
                f"setting {setting.name!r}: pktgen sends two flows from {min(twice)!r}: expected "
                "one at most from each host"
            )
        if setting.published and not self.published:
            raise ValueError(
                f"setting {setting.name!r} has published figures: expected `published`, their file"
            )

    def by_pktgen(self) -> list[str]:
        """Return the names of settings in which pktgen sends."""
        return [
            setting.name
            for setting in self.setting
            if any(changed(flow, setting).by == "pktgen" for flow in self.flow)
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts of all flows, in the order in which they come."""
        ends = (end for flow in self.flow for end in (flow.sender, flow.receiver))
        return tuple(dict.fromkeys(ends))

    def trials(self) -> Iterator[tuple[int, Setting]]:
        """Yield block and setting of each trial: all settings in each block, in random order.

        Those of one kernel come after one another.
        """
        order = random.Random(self.seed)
        for block in range(self.repeats):
            settings = order.sample(self.setting, len(self.setting))
            kernels = list(dict.fromkeys(setting.kernel for setting in settings))
            for setting in sorted(settings, key=lambda one: kernels.index(one.kernel)):
                yield block, setting

    def seconds(self) -> float:
        """Return about how long all of it takes."""
        longest = (max(changed(flow, one).seconds for flow in self.flow) for one in self.setting)
        return self.repeats * sum(each + TRIAL_SECONDS for each in longest)


# Of a trial beside its packets: both programs start, and the receiver waits for the last packets.
TRIAL_SECONDS = 3.0


def changed(flow: Flow, setting: Setting) -> Flow:
    """Return a flow as it is with a setting; ValidationError if that changes what it cannot."""
    as_given = flow.model_dump(by_alias=True, exclude_unset=True)
    # Of two that exclude each other, a setting's is meant.
    for pair in EXCLUDING:
        if set(pair) & setting.flow.keys():
            as_given = {key: value for key, value in as_given.items() if key not in pair}
    return Flow.model_validate(as_given | setting.flow)


def read(
    file: Path,
    *,
    on: str | None = None,
    seconds: float | None = None,
    repeats: int | None = None,
) -> tuple[TrafficFile, Mapping[str, Published]]:
    """Read a traffic file and its published figures; UsageError says what is wrong where.

    `on`, `seconds` of each flow and `repeats` take the place of the file's own.
    """
    found = tomlfile.read(TrafficFile, file, "the traffic file")
    if on is not None:
        found = _moved(found, on)
    if repeats is not None:
        found = found.model_copy(update={"repeats": repeats})
    if seconds is not None:
        found = _lasting(found, seconds)
    return found, _published(found, file)


def _moved(found: TrafficFile, on: str) -> TrafficFile:
    """Return the file with hosts elsewhere."""
    if on not in ("here", "guest"):
        raise UsageError(f"--on {on}: expected here or guest")
    if found.hosts:
        raise UsageError(f"--on {on}: the file names machines ([hosts]); leave one of both out")
    kernels = [setting.name for setting in found.setting if setting.kernel]
    if on == "here" and kernels:
        raise UsageError(
            f"--on here: setting {kernels[0]!r} has a kernel of its own, which takes a guest: "
            "expected --on guest"
        )
    if on == "here" and (pktgen := found.by_pktgen()):
        raise UsageError(
            f"--on here: pktgen sends with setting {pktgen[0]!r}, which takes a guest: expected "
            "--on guest"
        )
    return found.model_copy(update={"where": on})


def _lasting(found: TrafficFile, seconds: float) -> TrafficFile:
    """Return the file with flows that last so long, whatever settings say."""
    flows = tuple(
        Flow.model_validate(
            flow.model_dump(by_alias=True, exclude_unset=True) | {"seconds": seconds}
        )
        for flow in found.flow
    )
    settings = tuple(
        setting.model_copy(
            update={"flow": {key: value for key, value in setting.flow.items() if key != "seconds"}}
        )
        for setting in found.setting
    )
    return found.model_copy(update={"flow": flows, "setting": settings})


def _published(found: TrafficFile, file: Path) -> Mapping[str, Published]:
    """Return the published figures of a file by experiment."""
    if not found.published:
        return {}
    published = read_published(file.parent / found.published)
    for place, setting in enumerate(found.setting):
        if setting.published and setting.published not in published:
            what = f"{setting.published!r}: expected one of {', '.join(published)}"
            raise tomlfile.complaint(file, [(("setting", place, "published"), what)])
    return published
