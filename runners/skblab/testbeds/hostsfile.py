# SPDX-License-Identifier: GPL-2.0-or-later
"""The hosts file: which machines a testbed of hosts is, and which of their ports are cabled how.

[router]                        the device under test
ssh = "root@router"             as `ssh` takes it: its keys, known hosts and configuration
in = "enp3s0f0"                 joined to the tester's generator
out = "enp3s0f1"                joined to the tester's sink

[tester]                        generator and sink, on one clock
ssh = "root@tester"
generator = "enp3s0f0"
sink = "enp3s0f1"
loop = ["enp4s0f0", "enp4s0f1"] optional: two more ports, joined to each other
sender = "command"              optional: what sends, here a command of the user's
command = ["/usr/local/bin/x"]  which one

[labgrid]                       optional: these machines are a place of labgrid's, locked meanwhile
place = "bench1"
coordinator = "labgrid:20408"   optional: else LG_COORDINATOR
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from skblab.lab import store
from skblab.machine.transport.host import is_host
from skblab_analysis.base import tomlfile
from skblab_analysis.base.checked import Closed

# IFNAMSIZ, and what dev_valid_name refuses; nor what a shell or a command would take for more.
_PORT = re.compile(r"(?!-|\.{1,2}$)[^\s/:*?\[\]\\]{1,15}")


def _is_port(name: str) -> str:
    if _PORT.fullmatch(name) is None:
        raise ValueError(f"{name!r}: expected the name of a network device")
    return name


Port = Annotated[str, AfterValidator(_is_port)]
# Of one station: the lowest bit of the first byte is that of groups.
_ADDRESS = re.compile(r"[0-9a-f][02468ace](?::[0-9a-f]{2}){5}")


def _is_address(name: str) -> bool:
    return _ADDRESS.fullmatch(name) is not None


def _is_any_port(name: str) -> str:
    if ":" not in name:
        return _is_port(name)
    if not _is_address(name.lower()):
        raise ValueError(f"{name!r}: expected the Ethernet address of a port")
    return name.lower()


AnyPort = Annotated[str, AfterValidator(_is_any_port)]


def _is_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv or not argv[0].startswith("/") or not all(word.isprintable() for word in argv):
        raise ValueError(
            f"{list(argv)}: expected the path of a program on the tester and its arguments, such "
            'as ["/usr/local/bin/my-tester", "--fast"]'
        )
    return argv


Argv = Annotated[tuple[str, ...], AfterValidator(_is_command)]


class _Host(Closed):
    model_config = ConfigDict(populate_by_name=True)

    ssh: Annotated[str, Field(description="the machine, as ssh takes it, such as root@router")]

    @field_validator("ssh")
    @classmethod
    def _is_host(cls, name: str) -> str:
        if not is_host(name):
            raise ValueError(f"{name!r}: expected a host such as root@router")
        return name

    @property
    def ports(self) -> tuple[str, ...]:
        """All ports that the testbed takes."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        if len(set(self.ports)) < len(self.ports):
            raise ValueError(f"{', '.join(self.ports)}: expected ports that differ")
        return self


class Router(_Host):
    """The device under test."""

    port_in: Annotated[Port, Field(alias="in", description="port joined to the generator")]
    port_out: Annotated[Port, Field(alias="out", description="port joined to the sink")]

    @property
    def ports(self) -> tuple[str, str]:
        """In, and out."""
        return self.port_in, self.port_out


class Tester(_Host):
    """Generator and sink: one machine, so that both ends of a packet are timed by one clock.

    A port that the kernel does not have, as another driver has it, is named by its address.
    """

    generator: Annotated[
        AnyPort,
        Field(
            description="port that sends; its Ethernet address, if the kernel does not have it: "
            "then your command counts, too"
        ),
    ]
    sink: Annotated[
        AnyPort, Field(description="port that receives; its address, if that of `generator` is")
    ]
    loop: Annotated[
        tuple[AnyPort, AnyPort] | None,
        Field(description="two more ports, joined to each other: what the tester can do alone"),
    ] = None
    sender: Annotated[
        Literal["pktgen", "skblab-traffic", "af_xdp", "command"] | None,
        Field(
            description="`pktgen`; `skblab-traffic`, which is copied there; `af_xdp`, the same by "
            "AF_XDP; or `command`, one of your own; without it pktgen if the kernel has it"
        ),
    ] = None
    command: Annotated[
        Argv | None,
        Field(
            description='with `sender = "command"`: a program on the tester and its arguments, '
            "see [use another tester](../howto/use-another-tester.md)"
        ),
    ] = None

    @property
    def ports(self) -> tuple[str, ...]:
        """Generator, sink, and the loop's if there is one."""
        return self.generator, self.sink, *(self.loop or ())

    @property
    def apart(self) -> bool:
        """Whether the kernel does not have the ports, whose addresses they are then."""
        return _is_address(self.generator)

    @model_validator(mode="after")
    def _of_a_kind(self) -> Self:
        if {_is_address(port) for port in self.ports} == {True, False}:
            raise ValueError(
                f"{', '.join(self.ports)}: expected names of all ports, or addresses of all"
            )
        if self.apart and self.sender != "command":
            raise ValueError(
                f"{self.generator} is a port that the kernel does not have: expected "
                'sender = "command", and a command that sends from it'
            )
        return self

    @model_validator(mode="after")
    def _sends(self) -> Self:
        if self.sender == "command" and self.command is None:
            raise ValueError('sender = "command" needs command = ["/PROGRAM", "ARGUMENT", …]')
        if self.sender != "command" and self.command is not None:
            raise ValueError('command needs sender = "command"')
        return self


# What labgrid-client takes: a tag's name, and anything without blanks.
_TAG = re.compile(r"[a-z][a-z0-9_]+")
_WORD = re.compile(r"[^\s=]+")


def _is_word(name: str) -> str:
    if _WORD.fullmatch(name) is None:
        raise ValueError(f"{name!r}: expected a name without blanks")
    return name


Word = Annotated[str, AfterValidator(_is_word)]


class Labgrid(Closed):
    """The place of labgrid's that router and tester are."""

    place: Annotated[
        Word | None, Field(description="its name, as `labgrid-client places` has it")
    ] = None
    filter: Annotated[
        dict[str, Word] | None,
        Field(description='instead of `place`: tags that one place has, such as `{ board = "x" }`'),
    ] = None
    coordinator: Annotated[
        Word | None,
        Field(description="`HOST` or `HOST:PORT`; without it `LG_COORDINATOR` of the environment"),
    ] = None

    @field_validator("filter")
    @classmethod
    def _has_tags(cls, tags: dict[str, str] | None) -> dict[str, str] | None:
        for tag in tags or {}:
            if _TAG.fullmatch(tag) is None:
                raise ValueError(f"{tag!r}: expected the name of a tag, such as board")
        if tags == {}:
            raise ValueError('expected a tag, such as { board = "x" }')
        return tags

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.place is None) == (self.filter is None):
            raise ValueError("expected either place or filter")
        return self


class HostsFile(Closed):
    """The machines of a testbed."""

    ssh_config: Annotated[
        str | None, Field(description="a configuration file of ssh's, instead of the user's")
    ] = None
    router: Router
    tester: Tester
    labgrid: Labgrid | None = None

    @field_validator("ssh_config")
    @classmethod
    def _is_file(cls, name: str | None) -> str | None:
        try:
            there = name is None or Path(name).is_file()
        except OSError as error:
            # Too long for a name, for example.
            raise ValueError(f"{name}: {error.strerror}") from error
        if not there:
            raise ValueError(f"{name}: no such file")
        return name

    @model_validator(mode="after")
    def _hosts_differ(self) -> Self:
        if self.router.ssh == self.tester.ssh:
            raise ValueError(
                f"{self.router.ssh} is router and tester: expected two machines; for one, there "
                "is --testbed netns"
            )
        return self

    @property
    def config(self) -> Path | None:
        """The configuration file of ssh's."""
        return Path(self.ssh_config).resolve() if self.ssh_config else None

    @property
    def key(self) -> str:
        """What tells this testbed from others: its machines and ports."""
        hosts = (self.router, self.tester)
        named = [word for host in hosts for word in (host.ssh, *host.ports)]
        return store.digest([self.ssh_config or "", *named])


def read(file: Path) -> HostsFile:
    """Return a hosts file; UsageError says what is wrong with it, and in which line."""
    found = tomlfile.read(HostsFile, file, "the hosts file")
    # Wherever it is used from later, by `skblab cleanup` too.
    config = str(Path(found.ssh_config).resolve()) if found.ssh_config else None
    there = os.environ.get("LG_COORDINATOR")
    place = found.labgrid
    if place is not None and place.coordinator is None and there:
        place = place.model_copy(update={"coordinator": there})
    return found.model_copy(update={"ssh_config": config, "labgrid": place})
