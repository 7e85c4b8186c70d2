# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts by itself of the device under test, read before and after each trial.

Interrupts and softirqs by CPU, the softnet backlog's figures, those of the devices, of their
drivers and qdiscs, those of IP, ICMP, TCP and UDP in the router's namespace, allocations by NUMA
node and by slab cache, and the time that threads of NAPI and of softirqs had on a CPU. They say
whether a setting did what its name says: which CPUs were interrupted, which polled, where packets
were dropped.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from skblab.machine.device import Machine
from skblab.machine.transport import Transport
from skblab_analysis.base.errors import SkblabError, one_line, understood
from skblab_analysis.base.whole import MOST, whole
from skblab_analysis.work.rows import Counter, Kind

Key = tuple[Kind, str, int | None]
Values = Mapping[Key, int]

# Columns of /proc/net/softnet_stat (softnet_seq_show): what they are, by their place.
SOFTNET = {
    0: "processed",
    1: "dropped",
    2: "time_squeeze",
    9: "received_rps",
    10: "flow_limit_count",
}
SOFTNET_CPU = 12
# What may come into being in a trial, with nothing counted: a thread, a queue, a qdisc, a type of
# ICMP message that had not been seen before.
NEW: tuple[Kind, ...] = ("thread", "driver", "protocol", "qdisc", "slab")
# Those that the kernel keeps in 32 bits; a greater rise than half of that is none.
WRAPPING: tuple[Kind, ...] = ("interrupt", "softirq", "softnet", "slab")
# And of qdiscs these (struct gnet_stats_queue).
WRAPPING_QDISC = (" drops", " overlimits", " requeues")
WRAPPED = 1 << 32
MOST_UNSIGNED = (1 << 64) - 1
MOST_CPUS = 1 << 16
# Rows of /proc/interrupts (arch_show_interrupts).
OF_NONE = frozenset({"ERR", "Err", "MIS"})
# Of /proc/net/snmp and netstat what is a state, and counts nothing (snmp_seq_show, MPTCP's mib.c).
STATES = frozenset(
    (
        *("IpForwarding", "IpDefaultTTL", "TcpRtoAlgorithm", "TcpRtoMin", "TcpRtoMax"),
        *("TcpMaxConn", "TcpCurrEstab", "MPTcpExtMPCurrEstab"),
    )
)
OF_DRIVER = re.compile(r" *([^:]*): *([0-9]+)")
QDISC = re.compile(r"qdisc (\S+) (\S+) dev (\S+) (?:(root)|parent (\S+))?")
QDISC_SENT = re.compile(
    r" Sent ([0-9]+) bytes ([0-9]+) pkt \(dropped ([0-9]+), overlimits ([0-9]+) requeues ([0-9]+)\)"
)
QDISC_NAMES = ("bytes", "packets", "drops", "overlimits", "requeues")


def functions() -> str:
    """Return the shell functions of counters.sh."""
    return (resources.files(__package__) / "counters.sh").read_text()


def read(transport: Transport, machine: Machine) -> Values:
    """Return all counters as they are now."""
    call = ["count", machine.netns or "", *(device.name for device in machine.devices)]
    done = transport.script(f"set -eu\n{functions()}\n{shlex.join(call)}\n")
    printed = done.check("reading the kernel's counters").stdout
    return parse(printed, [device.name for device in machine.devices])


def parse(printed: str, devices: Sequence[str]) -> Values:
    """Return the counters in what counters.sh printed; SkblabError if they are not whole.

    Interrupts of the devices under test have the device's name before their own.
    """
    with understood("what the kernel's counters say", printed):
        return _parse(printed, devices)


def _parse(printed: str, devices: Sequence[str]) -> Values:
    values: dict[Key, int] = {}
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in printed.rstrip("\n").split("\n"):
        if line.startswith("== "):
            lines = sections.setdefault(line.removeprefix("== "), [])
        else:
            lines.append(line)
    of_devices = [f"device {device}" for device in devices]
    for name in ("interrupts", "softirqs", "softnet", "snmp", "netstat", *of_devices):
        if not sections.get(name):
            raise SkblabError(f"the kernel's counters have no {name}")
    owners = {irq: device for device, irq in map(_pair, sections.pop("owners", []))}
    for (_, irq, cpu), count in _by_cpu("interrupt", sections.pop("interrupts")):
        owner = owners.get(irq.partition(" ")[0])
        values["interrupt", f"{owner} {irq}" if owner else irq, cpu] = count
    values.update(_by_cpu("softirq", sections.pop("softirqs")))
    values.update(_softnet(sections.pop("softnet")))
    for line in sections.pop("threads", []):
        name, _, nanoseconds = line.rpartition(" ")
        values["thread", name, None] = whole(nanoseconds)
    values.update(_qdiscs(sections.pop("qdiscs", []), devices))
    for section, rest in sections.items():
        values.update(_section(section.split(), rest))
    return values


def _section(words: list[str], lines: list[str]) -> Iterator[tuple[Key, int]]:
    """Yield the values of a section whose name says of what it is."""
    match words:
        case ["snmp" | "netstat"]:
            for name, value in _protocols(lines):
                if name not in STATES:
                    yield ("protocol", name, None), whole(value, MOST_UNSIGNED)
        case ["snmp6"]:
            for name, value in map(str.split, lines):
                yield ("protocol", name, None), whole(value, MOST_UNSIGNED)
        case ["device", device]:
            for name, value in map(_pair, lines):
                yield ("device", f"{device} {name}", None), whole(value, MOST_UNSIGNED)
        case ["driver", device]:
            for found in filter(None, map(OF_DRIVER.fullmatch, lines)):
                # A driver's author may name a counter with anything in it.
                name = "".join(
                    letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
                    for letter in f"{device} {found[1].strip()}"
                )
                yield ("driver", name, None), whole(found[2], MOST_UNSIGNED)
        case ["numa", node]:
            for name, value in map(str.split, lines):
                yield ("numa", f"{node} {name}", None), whole(value, MOST_UNSIGNED)
        case ["slab", cache, way]:
            # Of CPUs that have none it says nothing; of one that has no others only the sum.
            [line] = lines
            total, *by_cpu = line.split()
            for word in by_cpu or [f"C0={total}"]:
                cpu, _, value = word.removeprefix("C").partition("=")
                yield ("slab", f"{cache} {way}", whole(cpu, MOST_CPUS)), whole(value, WRAPPED)
        case _:
            raise ValueError(f"there is a section {one_line(' '.join(words), 40)!r}")


def _pair(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(": ")
    if not colon:
        raise ValueError(f"{one_line(line, 40)!r}: expected a name and a value")
    return name, value


def _protocols(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of lines in pairs, as of /proc/net/snmp: `Udp: InErrors`, `Udp: 5`."""
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol, found = _pair(names)
        if (of_values := _pair(values))[0] != protocol:
            raise ValueError(f"{protocol} is followed by {of_values[0]}")
        for name, value in zip(found.split(), of_values[1].split(), strict=True):
            yield f"{protocol}{name}", value


def _qdiscs(lines: list[str], devices: Sequence[str]) -> Iterator[tuple[Key, int]]:
    """Yield what qdiscs of these devices count, in what `tc -s qdisc show` prints for people.

    Its JSON has what each kind of qdisc says of itself, and one that says it badly would spoil all.
    """
    device = qdisc = ""
    for line in lines:
        if head := QDISC.match(line):
            kind, handle, device, root, parent = head.groups()
            # Those of a device's queues have the same kind and no handle.
            qdisc = f"{device} {kind} {root or parent or handle}"
        elif device in devices and (sent := QDISC_SENT.match(line)):
            for name, value in zip(QDISC_NAMES, sent.groups(), strict=True):
                yield ("qdisc", f"{qdisc} {name}", None), whole(value, MOST_UNSIGNED)


def difference(before: Values, after: Values) -> list[Counter]:
    """Return what was counted from one reading to the other, without what was not.

    SkblabError if a counter of the kernel's has fallen: nobody knows then what it counted.
    """
    found = []
    for (kind, name, cpu), now in after.items():
        # A thread and a queue may be new; all else was there, or it would be no difference.
        since = before.get((kind, name, cpu), 0 if kind in NEW else now)
        if value := _rise(kind, f"{name} of CPU {cpu}" if cpu is not None else name, since, now):
            with understood("the name of a kernel's counter", name):
                found.append(Counter(kind=kind, name=name, cpu=cpu, value=value))
    return found


def _rise(kind: Kind, name: str, since: int, now: int) -> int:
    if kind == "thread" and now < since:
        # Another one of that name, whose time began anew.
        return now
    rise = now - since
    wraps = kind in WRAPPING or (kind == "qdisc" and name.endswith(WRAPPING_QDISC))
    if rise < 0 and wraps:
        rise += WRAPPED
    # A driver has what it likes among its own, a queue's length, too.
    if kind != "driver" and not 0 <= rise < (WRAPPED // 2 if wraps else MOST):
        raise SkblabError(
            f"the kernel's counter of {kind} {name} fell from {since} to {now} in the trial: what "
            "it counted is not known"
        )
    return max(min(rise, MOST), -MOST)


def _by_cpu(kind: Kind, lines: list[str]) -> Iterator[tuple[Key, int]]:
    """Yield the values of a table whose head names CPUs and whose rows begin with a name."""
    cpus = [whole(word.removeprefix("CPU"), MOST_CPUS) for word in lines[0].split()]
    if not cpus:
        raise ValueError(f"{kind}s of no CPU")
    for line in lines[1:]:
        head, _, rest = line.partition(":")
        name, words = head.strip(), rest.split()
        # They are of no CPU, and have one number.
        if name in OF_NONE:
            continue
        if len(words) < len(cpus):
            raise ValueError(f"{kind} {name} has {len(words)} numbers for {len(cpus)} CPUs")
        # Of an interrupt what follows is its chip and its device: the last word tells it apart.
        handler = f" {words[-1]}" if name.isdecimal() and len(words) > len(cpus) else ""
        for cpu, value in zip(cpus, words, strict=False):
            yield (kind, f"{name}{handler}", cpu), whole(value)


def _softnet(lines: list[str]) -> Iterator[tuple[Key, int]]:
    for number, line in enumerate(lines):
        words = [_hexadecimal(word) for word in line.split()]
        if len(words) <= max(SOFTNET):
            raise ValueError(f"softnet_stat has {len(words)} columns")
        # Kernels before 5.10 have no such column.
        cpu = words[SOFTNET_CPU] if len(words) > SOFTNET_CPU else number
        for place, name in SOFTNET.items():
            yield ("softnet", name, cpu), words[place]


def _hexadecimal(word: str) -> int:
    if re.fullmatch("[0-9a-f]{1,8}", word) is None:
        raise ValueError(f"{one_line(word, 40)!r}: expected up to 8 hexadecimal digits")
    return int(word, 16)
