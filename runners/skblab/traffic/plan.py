# SPDX-License-Identifier: GPL-2.0-or-later
"""A traffic file: which flows run between which hosts, and what settings change of them.

The first setting is what others are compared with. All flows of a trial run at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    model_validator,
)

from skblab.machine.transport.host import is_host
from skblab.traffic.flow import EXCLUDING, Between, Flow, Host
from skblab.traffic.tcp import TcpFlow
from skblab_analysis.base import tomlfile
from skblab_analysis.base.checked import Finite
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.published import Published
from skblab_analysis.formats.published import read as read_published
from skblab_analysis.formats.run import RunName
from skblab_analysis.trials.rows import Setting as SettingName

FlowT = TypeVar("FlowT", bound=Flow | TcpFlow)
# What is of a flow, whatever it sends: a setting cannot change it.
FIXED = frozenset({"name", "from", "to", "port", "family"})
# Other kinds have other figures.
FIXED_OF_TCP = FIXED | {"kind"}


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
    device: Annotated[
        str | None,
        Field(pattern=r"^[^/\s]{1,15}$", description="its port, for `sockets` that take frames"),
    ] = None
    mac: Annotated[
        str | None,
        Field(
            pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$",
            description="Ethernet address that frames for it go to: its port's, or a router's",
        ),
    ] = None


class Setting(Finite):
    """A setting: what it changes of every flow."""

    name: Annotated[
        SettingName, Field(min_length=1, max_length=60, description="its name in all tables")
    ]
    flow: Annotated[
        dict[str, Any], Field(description="keys of flows with the values that they have with it")
    ] = {}  # noqa: RUF012 - pydantic copies it
    tcp: Annotated[dict[str, Any], Field(description="the same of TCP flows")] = {}  # noqa: RUF012
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
    flow: tuple[Flow, ...] = ()
    tcp: tuple[TcpFlow, ...] = ()
    setting: tuple[Setting, ...] = (Setting(name="baseline"),)
    published: Annotated[
        str, Field(description="published figures, a CSV file beside this one")
    ] = ""
    differs: Annotated[str, Field(description="what is not as in the published study")] = ""

    @model_validator(mode="after")
    def _whole(self) -> TrafficFile:
        if not self.flows:
            raise ValueError("no flow: expected [[flow]], [[tcp]] or both")
        for what, names in (
            ("flow", [flow.name for flow in self.flows]),
            ("setting", [setting.name for setting in self.setting]),
        ):
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"{what}: two are named {min(twice)!r}")
        # UDP and TCP have ports of their own.
        for flows in (self.flow, self.tcp):
            ends = [(flow.receiver, flow.port) for flow in flows]
            if len(set(ends)) < len(ends):
                raise ValueError("flow: two go to one port of one host: give one another port")
        if self.hosts:
            for flow in self.flows:
                self._reaches(flow)
        for setting in self.setting:
            self._check(setting)
        return self

    def _reaches(self, flow: Between) -> None:
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
        fixed = (FIXED & setting.flow.keys()) | (FIXED_OF_TCP & setting.tcp.keys())
        if fixed:
            raise ValueError(
                f"setting {setting.name!r}: {min(fixed)} is the same with every setting: expected "
                "other keys of a flow"
            )
        for what, given, changes in (
            ("flow", self.flow, setting.flow),
            ("tcp", self.tcp, setting.tcp),
        ):
            if changes and not given:
                raise ValueError(
                    f"setting {setting.name!r}: {what} = ...: expected [[{what}]] with it"
                )
        flows = []
        for flow in self.flows:
            try:
                flows.append(changed(flow, setting))
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                place = ".".join([_key(flow), *map(str, fault["loc"])])
                why = fault["msg"].removeprefix("Value error, ")
                raise ValueError(
                    f"setting {setting.name!r}: {place}: {why}"
                    if fault["loc"]
                    else f"setting {setting.name!r}: {why}"
                ) from None
        for flow in flows if self.hosts else ():
            if isinstance(flow, Flow) and flow.of_devices:
                self._has_devices(setting, flow)
        ends = [
            name
            for flow in flows
            if isinstance(flow, Flow) and flow.sockets == "xdp"
            for name in (flow.sender, flow.receiver)
        ]
        if twice := {name for name in ends if ends.count(name) > 1}:
            raise ValueError(
                f"setting {setting.name!r}: two flows have AF_XDP at {min(twice)!r}: expected one "
                "at most, a device has one such socket"
            )
        senders = [flow.sender for flow in flows if _by_pktgen(flow)]
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

    def _has_devices(self, setting: Setting, flow: Flow) -> None:
        """Raise ValueError if it is not known from and to where frames go."""
        sender, receiver = self.hosts[flow.sender], self.hosts[flow.receiver]
        from_it = {address.version for address in sender.address}
        for name, known, what in (
            (flow.sender, sender.device, "device"),
            (flow.sender, flow.family in from_it, f"an IPv{flow.family} address"),
            (flow.receiver, receiver.device, "device"),
            (flow.receiver, receiver.mac, "mac"),
        ):
            if not known:
                raise ValueError(
                    f'setting {setting.name!r}: sockets = "{flow.sockets}" takes frames of '
                    f"devices: expected {what} of {name!r} in [hosts]"
                )

    def by_pktgen(self) -> list[str]:
        """Return the names of settings in which pktgen sends."""
        return [
            setting.name
            for setting in self.setting
            if any(_by_pktgen(changed(flow, setting)) for flow in self.flow)
        ]

    @property
    def flows(self) -> tuple[Flow | TcpFlow, ...]:
        """All flows, those of packets first."""
        return (*self.flow, *self.tcp)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts of all flows, in the order in which they come."""
        ends = (end for flow in self.flows for end in (flow.sender, flow.receiver))
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
        longest = (max(changed(flow, one).seconds for flow in self.flows) for one in self.setting)
        pairs = {(flow.sender, flow.receiver) for flow in self.flow} if self.hosts else ()
        beside = TRIAL_SECONDS + 2 * COMPARING_SECONDS * len(pairs)
        return self.repeats * sum(each + beside for each in longest)


# Of a trial beside its packets: both programs start, and the receiver waits for the last packets.
TRIAL_SECONDS = 3.0
# To compare the clocks of two machines, before a trial and after it.
COMPARING_SECONDS = 1.5


def _key(flow: Between) -> str:
    """Return the key of a file that has such a flow, and of a setting that changes it."""
    return "tcp" if isinstance(flow, TcpFlow) else "flow"


def _by_pktgen(flow: Between) -> bool:
    return isinstance(flow, Flow) and flow.by == "pktgen"


def changed(flow: FlowT, setting: Setting) -> FlowT:
    """Return a flow as it is with a setting; ValidationError if that changes what it cannot."""
    changes = setting.tcp if isinstance(flow, TcpFlow) else setting.flow
    as_given = flow.model_dump(by_alias=True, exclude_unset=True)
    # Of two that exclude each other, a setting's is meant.
    for pair in EXCLUDING:
        if set(pair) & changes.keys():
            as_given = {key: value for key, value in as_given.items() if key not in pair}
    return cast(FlowT, type(flow).model_validate(as_given | changes))


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

    def without(changes: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in changes.items() if key != "seconds"}

    lasts = {"seconds": seconds}
    lasting = Setting(name=found.setting[0].name, flow=lasts, tcp=lasts)
    settings = tuple(
        one.model_copy(update={"flow": without(one.flow), "tcp": without(one.tcp)})
        for one in found.setting
    )
    flows = {
        "flow": tuple(changed(flow, lasting) for flow in found.flow),
        "tcp": tuple(changed(flow, lasting) for flow in found.tcp),
    }
    return found.model_copy(update=flows | {"setting": settings})


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
