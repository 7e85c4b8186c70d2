# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab probe verify` runs: back ends, the cases that each counts, and how many packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from skblab.lab import kernel
from skblab.lab.kernel import lines, names
from skblab.probe import loads
from skblab.probe.loads import Load
from skblab.probe.request import BPF, HISTOGRAMS, HOOKS, Request
from skblab.probe.scripts import bpftrace, systemtap
from skblab_analysis.base.errors import UsageError

# A prime, so that no batch size hides a rest.
PACKETS = 100_003
RATE = 10_000
# An interrupt that comes while a CPU is in a kprobe then wakes a thread for its softirqs. Else they
# run at the interrupt's end, still in the kprobe, and no kprobe sees their packets.
SOFTIRQS_IN_THREADS = "threadirqs"


@dataclass(frozen=True)
class Backend:
    """A way to measure, and the kernel it is for.

    Histograms need our series. Hooks count without it: bpftrace cannot attach its own to a kernel
    with it, in which the compiler inlines __napi_poll().
    """

    name: str
    patched: bool
    request: Request
    tool: str = BPF

    @property
    def by_kprobe(self) -> bool:
        """Whether it hooks functions by kprobes."""
        hooks = self.request.source == HOOKS
        return bool(self.request.kprobes) or (hooks and self.tool == systemtap.NAME)


BACKENDS = (
    Backend("histograms", patched=True, request=Request(source=HISTOGRAMS)),
    Backend("hooks by fentry", patched=False, request=Request(source=HOOKS)),
    Backend("hooks by kprobe", patched=False, request=Request(source=HOOKS, kprobes=True)),
    Backend("bpftrace hooks", False, Request(source=HOOKS), bpftrace.NAME),
    Backend("stap hooks", False, Request(source=HOOKS), systemtap.NAME),
)


def kernels(
    name: names.Name, of: str, chosen: Sequence[Backend], *, named: bool
) -> list[tuple[kernel.Request, list[Backend]]]:
    """Return what to boot for the `chosen` back ends, and which of them run there.

    Of a line each back end has the kernel it is for. Another kernel, or one with our series that
    is named as such, runs all that can run on it. UsageError if one that was `named` cannot.
    """
    if name == names.Name(name.line, patches=False):
        found = [
            (
                name.request(of, patches=patched),
                [backend for backend in chosen if backend.patched == patched],
            )
            for patched in (True, False)
        ]
        return [(request, some) for request, some in found if some]
    fit = [backend for backend in chosen if unfit(backend, name) is None]
    for backend in chosen:
        why = unfit(backend, name)
        if why is not None and (named or not fit):
            raise UsageError(f"--kernel {name}, --backend '{backend.name}': {why}")
    return [(name.request(of), fit)]


def unfit(backend: Backend, name: names.Name) -> str | None:
    """Return why a back end cannot run on a kernel."""
    if backend.patched and not name.patches:
        return f"histograms are of our series; expected {lines.DEFAULT}{lines.PATCHED}, say"
    if name.patches and not backend.patched and backend.tool == bpftrace.NAME:
        return "bpftrace cannot attach to __napi_poll(), which the compiler inlines there"
    if name.packaged is not None and backend.tool == systemtap.NAME:
        return "SystemTap needs a kernel that was built here: its symbols and its modules' build"
    if name.packaged is not None and backend.tool == bpftrace.NAME:
        return "bpftrace sees no function of a module that is not loaded, such as sctp_rcv()"
    return None


def rounds(backends: Sequence[Backend]) -> list[tuple[Backend, ...]]:
    """Return what runs at once: all for our kernel, and those by fentry.

    Of kprobes one back end alone: while a CPU is at one, an interrupt there meets no other.
    """
    readers = tuple(backend for backend in backends if backend.patched)
    hooks = [backend for backend in backends if not backend.patched]
    by_fentry = tuple(backend for backend in hooks if not backend.by_kprobe)
    groups = [readers, by_fentry, *((backend,) for backend in hooks if backend.by_kprobe)]
    return [group for group in groups if group]


def boots(backends: Sequence[Backend]) -> dict[tuple[str, ...], list[tuple[Backend, ...]]]:
    """Return the rounds of each guest, by the words on its kernel's command line."""
    of_boots: dict[tuple[str, ...], list[tuple[Backend, ...]]] = {}
    for together in rounds(backends):
        words = (SOFTIRQS_IN_THREADS,) if together[0].by_kprobe else ()
        of_boots.setdefault(words, []).append(together)
    return of_boots


def comparable(backends: Sequence[Backend], *, patched: bool) -> list[Backend]:
    """Return those whose medians are compared on a kernel with our series, or without it.

    Our kernel's histograms meet the hooks as well: the quickest of them, which blur the least.
    Without the histograms all of them meet each other.
    """
    found = [backend for backend in backends if backend.patched == patched]
    if patched and not found:
        return list(backends)
    if patched:
        found += [backend for backend in backends if backend.name == "hooks by fentry"]
    return found


@dataclass(frozen=True)
class Case:
    """A load, and where the packets are polled."""

    load: Load
    threaded: bool

    def __str__(self) -> str:
        """The case's name."""
        return f"{self.load}, {'NAPI threads' if self.threaded else 'softirq'}"


def cases() -> Iterator[Case]:
    """Every protocol, family, path and context."""
    protocols: tuple[loads.Protocol, ...] = ("udp", "tcp", "sctp")
    families: tuple[loads.Family, ...] = (4, 6)
    for threaded, forward, protocol, family in product(
        (False, True), (False, True), protocols, families
    ):
        yield Case(Load(protocol, family, forward), threaded)


def cases_of(names: Sequence[str]) -> list[Case]:
    """Return the cases that names choose, or all for none: a load's cases, or a case alone.

    Raises UsageError for a name of neither.
    """
    every = list(cases())
    for name in names:
        if name not in {text for case in every for text in (str(case), str(case.load))}:
            known = ", ".join(sorted({str(case.load) for case in every}))
            raise UsageError(
                f"--only {name}: expected a load, such as {every[0].load}, or a case, "
                f"such as '{every[0]}'; there are {known}"
            )
    return [case for case in every if not names or {str(case), str(case.load)} & set(names)]
