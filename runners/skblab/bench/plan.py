# SPDX-License-Identifier: GPL-2.0-or-later
"""The rows of the benchmark: which kernel, what is switched on, who reads, and what proves it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skblab.lab import kernel
from skblab.lab.kernel.lines import DEFAULT, Line
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.bench import Group

Boot = str
# The three kernels of the series; any other name is that of an alternative.
PLAIN, OFF, PATCHED = "plain", "off", "patched"
ANY: Literal["any"] = "any"
Proof = Literal["none", "hists", "debugfs", "runs", "polls", "text", "pathlat"]

BASELINE = "unpatched"
ALL = ("tester", "forward", "receive")
NAPI = ("tester",)
# driver stack ip route forward output queue xmit done, or driver stack ip route local transport
# socket wake user. The same for the patches and for every tool.
POINTS = 9
# pathlat counts there whatever it is asked to look at.
KNOWN_POINTS = ("user", "xmit", "done", "total")
# Those that netstacklat has, too: at ip_rcv_core(), udp_rcv(), the socket's queue and its reader.
FEW = ("ip", "transport", "socket")
# Readers that are the kernel itself.
KERNEL = ("none", "late")


@dataclass(frozen=True)
class Row:
    """A row: `kernel` is one of the three above or an alternative's name.

    `trace` is the value of net.core.path_trace, None for a kernel that lacks it, ANY for one that
    may have it, off as it comes. `reader` and `proof` are as bench.sh understands them. A NAPI row
    is compared with row `against`.
    """

    name: str
    title: str
    kernel: Boot
    group: Group = "patch"
    trace: int | Literal["any"] | None = None
    reader: str = "none"
    proof: Proof = "none"
    parts: tuple[str, ...] = ALL
    against: str = BASELINE
    stamped: bool = False
    # Of pathlat, what it was asked to look at; all if nothing.
    path: str = ""
    asked: tuple[str, ...] = ()

    def looks_at(self, path: str, point: str) -> bool:
        """Tell whether its reader was asked to count packets of a path at a point."""
        asked = not self.asked or point in (*self.asked, *KNOWN_POINTS)
        return self.path in ("", path) and asked

    @property
    def points(self) -> dict[str, int]:
        """How many points of each path it counts at."""
        if self.name == BASELINE or self.group == "napi":
            return {}
        # And at the last one.
        count = len(self.asked) + 1 if self.asked else POINTS
        return {path: count for path in ("forward", "receive") if self.path in ("", path)}

    @property
    def tool(self) -> str:
        """The tool's name, as versions are listed by; empty for none."""
        kind = self.reader.partition(":")[0]
        return "" if kind in KERNEL else kind

    def words(self) -> list[str]:
        """Return the arguments of bench.sh's `run`."""
        trace = "none" if self.trace is None else str(self.trace)
        return [self.name, trace, self.reader, self.proof, *self.parts]


def _stamps(name: str, title: str, reader: str = "none", **more: object) -> Row:
    settings: dict[str, object] = {"trace": 1, "proof": "debugfs", "stamped": True, **more}
    return Row(name, title, PATCHED, reader=reader, **settings)  # type: ignore[arg-type]


def _hooks(name: str, title: str, points: tuple[str, ...] = ()) -> Row:
    asked = f" --points {','.join(points)}" if points else ""
    reader = f"pathlat:--source hooks --path receive{asked}"
    return Row(*(name, title, PLAIN, "tool", None, reader, "pathlat"), path="receive", asked=points)


ROWS: tuple[Row, ...] = (
    Row(BASELINE, "unpatched kernel", PLAIN),
    Row("config-off", "patched, option off in the configuration", OFF),
    _stamps("off", "patched, off at run time", trace=0, stamped=False),
    _stamps("on", "on, histograms in the kernel"),
    _stamps("late", "on, the kernel looks for late packets", "late"),
    _stamps(
        *("pathlat", "on, NAPI polls, too, and pathlat reads", "pathlat:--source histograms"),
        proof="pathlat",
    ),
    Row(
        *("hooks", "pathlat, hooks by fentry", PLAIN, "tool"),
        reader="pathlat:--source hooks",
        proof="pathlat",
    ),
    Row(
        *("hooks-kprobe", "pathlat, hooks by kprobe", PLAIN, "tool"),
        reader="pathlat:--source hooks --kprobes",
        proof="pathlat",
    ),
    _hooks("hooks-receive", "pathlat, hooks, received packets alone"),
    _hooks("hooks-few", "pathlat, hooks, received packets, four points", FEW),
    Row("bpf-map", "BPF, fentry and a map", PLAIN, "tool", None, "bpf:path", "hists"),
    Row("bpftrace", "bpftrace, fentry", PLAIN, "tool", None, "bpftrace:path-fentry.bt", "text"),
    Row(
        *("bpftrace-kprobe", "bpftrace, kprobes", PLAIN, "tool"),
        reader="bpftrace:path-kprobe.bt",
        proof="text",
    ),
    Row("systemtap", "SystemTap", PLAIN, "tool", None, "systemtap", "text"),
    Row("napi-off", "patched, nobody reads", OFF, "napi", parts=NAPI),
    Row(
        *("napi-sample", "napi_poll_sample, a BPF program that does nothing", PATCHED, "napi", 0),
        reader="bpf:napi-sample-empty",
        proof="runs",
        parts=NAPI,
        against="off",
    ),
    Row(
        *("napi-histograms", "NAPI polls in histograms of the kernel", PATCHED, "napi", 0, "polls"),
        proof="polls",
        parts=NAPI,
        against="off",
    ),
    Row(
        *("napi-poll", "mainline's napi_poll, a BPF program that does nothing", PLAIN, "napi"),
        reader="bpf:napi-poll-empty",
        proof="runs",
        parts=NAPI,
    ),
)


def alternative(name: str) -> tuple[Row, Row]:
    """Return the rows of a kernel with one more patch: off and on."""
    return (
        Row(f"{name}-off", f"{name}, off at run time", name, "alternative", 0, "none", "debugfs"),
        Row(
            *(f"{name}-on", f"{name}, histograms in the kernel", name, "alternative", 1),
            proof="debugfs",
            stamped=True,
        ),
    )


def choose(wanted: Sequence[str], alternatives: Iterable[str] = ()) -> tuple[Row, ...]:
    """Return the rows asked for, all if none, with every row that one is compared with.

    Raises UsageError for a name that is none.
    """
    known = {
        row.name: row
        for row in (*ROWS, *(row for name in alternatives for row in alternative(name)))
    }
    if not wanted:
        return tuple(known.values())
    names = {BASELINE}
    for name in wanted:
        if name not in known:
            raise UsageError(f"--rows {name}: no such row; known are: {', '.join(known)}")
        names |= {name, known[name].against}
    return tuple(row for row in known.values() if row.name in names)


def kernels(rows: Iterable[Row]) -> list[str]:
    """Return the kernels that the rows need, in the order first needed."""
    return list(dict.fromkeys(row.kernel for row in rows))


def request(name: str, patch: Path | None = None, line: Line = DEFAULT) -> kernel.Request:
    """Return the kernel of that name as it is asked for, with the patch of an alternative."""
    return kernel.Request(patches=name != PLAIN, trace=name != OFF, alternative=patch, line=line)


def require_stamps(rows: Iterable[Row], line: Line, given: Collection[str]) -> None:
    """Raise UsageError if rows need stamps, which our patches for a line do not have yet.

    `given` are the kernels that need not be built.
    """
    wanting = [row.name for row in rows if row.kernel not in (PLAIN, *given)]
    if wanting and not line.has_options:
        without = ", ".join(row.name for row in ROWS if row.kernel == PLAIN)
        raise UsageError(
            f"--kernel {line}: there are no path stamps for Linux {line} yet, and "
            f"{', '.join(wanting[:3])}{' …' if len(wanting) > 3 else ''} cannot run without; "
            f"rows of the unpatched kernel are: {without}"
        )
