# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/reference/catalogue.md from probes/catalogue.toml, so that they cannot drift apart.

python -m skblab_analysis.catalogue_page            write
"""

from __future__ import annotations

from pathlib import Path

from skblab_analysis.base.disk import write_whole
from skblab_analysis.formats.catalogue import (
    OLDEST,
    PROTOCOLS,
    Argument,
    Catalogue,
    Hook,
    PathOfPoints,
    load,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "catalogue.md"

HEAD = f"""<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made from probes/catalogue.toml by `make schemas`; change that instead. -->
# The catalogue of layers

A point is a place that packets pass. A layer is the interval that ends at a point and begins at the
one before that the same packet passed; it has the name of the point at its end. What is counted
there is a packet as on the wire, a bundle (what GRO may have made of several, or segmentation has
yet to cut), a segment of a TCP connection, a message of `sendmsg()`, or a poll.

A kernel with our series counts every layer by itself. What comes back into its stack otherwise than
by a device that sent it, as out of a tunnel or by a bridge, goes on on its path, and the time until
then is counted at `driver`. On other kernels, from {OLDEST} on, and where more is asked for than
what ours counts, probes hook the places below; a point without one is reported as absent.
"""


def page(catalogue: Catalogue) -> str:
    """Return the page's text."""
    lines = [HEAD]
    for path in catalogue.paths:
        lines += _path(catalogue, path)
    lines += ["## Places to hook", "", "On every kernel, with our series or without.", ""]
    lines += ["| point | place | packet or NAPI | when |", "| --- | --- | --- | --- |"]
    for point in catalogue.points:
        lines += [_hook(point.name, hook) for hook in point.hooks]
        if point.absent:
            lines.append(f"| `{point.name}` | none: {point.absent} | | |")
    lines += ["", "A packet ends, and its address is soon another's:", ""]
    lines += ["| end | place | packet | when |", "| --- | --- | --- | --- |"]
    for end in catalogue.ends:
        lines += [_hook(end.name, hook) for hook in end.hooks]
    return "\n".join(lines) + "\n"


def _path(catalogue: Catalogue, path: PathOfPoints) -> list[str]:
    lines = [f"## {path.name}", "", path.sentence + f" Its usual end is {path.usual_end}.", ""]
    lines += ["| point | counted | what it is | what the layer up to it contains |"]
    lines += ["| --- | --- | --- | --- |"]
    for name in path.points:
        point = catalogue.point(name)
        layer = point.layer or "the path begins"
        lines.append(f"| `{name}` | {point.unit} | {point.sentence} | {layer} |")
    return [*lines, ""]


def _argument(subject: Argument) -> str:
    argument = f"`{subject.name}` ({subject.index})"
    argument = "what it returns" if subject.index is None else argument
    return argument + (", the first of the list" if subject.list else "")


def _hook(name: str, hook: Hook) -> str:
    rest = hook.at.split(":", 1)[1]
    what = {
        "tracepoint": f"tracepoint `{rest}`",
        "entry": f"`{rest}()`",
        "return": f"return of `{rest}()`",
    }[hook.kind]
    argument = _argument(hook.subject) if hook.subject else "none yet: the task"
    when = [f"path {', '.join(hook.paths)}"] if hook.paths else []
    if hook.families != (4, 6):
        when.append("IPv4" if hook.families == (4,) else "IPv6")
    if hook.protocols != PROTOCOLS:
        when.append(", ".join(name.upper() for name in hook.protocols))
    if hook.since != OLDEST:
        when.append(f"from {hook.since}")
    if hook.before:
        when.append(f"before {hook.before}")
    if hook.kprobe:
        when.append(f"by kprobe `{hook.kprobe.at.split(':')[1]}()`, {_argument(hook.kprobe.skb)}")
    if hook.note:
        when.append(hook.note)
    return f"| `{name}` | {what} | {argument} | {'; '.join(when)} |"


if __name__ == "__main__":
    write_whole(PAGE, page(load()))
