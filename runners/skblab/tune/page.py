# SPDX-License-Identifier: GPL-2.0-or-later
"""The advice that `skblab tune` writes for whoever runs the router: Markdown, sysctl.d, TuneD."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skblab.knobs.base import DEVICE
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value

SCRIPT, PAGE, SYSCTL, TUNED = "advice.sh", "advice.md", "sysctl.conf", "tuned.conf"


@dataclass(frozen=True)
class Told:
    """What both sweeps came to, in words that the report has for it.

    `ranked`, `mixed` and `only_here` are settings with what they are worth; `left` those that are
    not set together with better ones, each with the reason, `not_tested` those without a figure.
    `confirmed` says what the second sweep found, and is empty if there was none; `why_none` why
    nothing is advised, and is empty if something is.
    """

    question: str
    goal: str
    where: str
    kernel: str
    traffic: Sequence[str]
    ranked: Sequence[tuple[str, str]]
    mixed: Sequence[tuple[str, str]]
    only_here: Sequence[tuple[str, str]]
    left: Sequence[tuple[str, str]]
    not_tested: Sequence[tuple[str, str]]
    no_gain: Sequence[str]
    confirmed: str
    why_none: str
    reports: Sequence[str]
    knobs: Mapping[str, Value]


def page(told: Told) -> Iterator[str]:
    """Yield the lines of the Markdown page."""
    yield f"# What to set, for {told.goal}"
    yield ""
    yield (
        f"{told.question} Measured in {told.where}, Linux {told.kernel}, "
        f"traffic: {'; '.join(told.traffic)}."
    )
    yield ""
    if told.why_none:
        yield f"**Set nothing.** {told.why_none}"
        if told.confirmed:
            yield ""
            yield told.confirmed
    else:
        yield f"**Set this.** {told.confirmed}"
        yield ""
        yield "```sh"
        yield from by_hand(told.knobs)
        yield "```"
        yield ""
        sysctl = f"{SYSCTL} into /etc/sysctl.d, or " if sysctls(told.knobs) else ""
        yield (
            f"{DEVICE} is each network device of the router. `sh {SCRIPT}` does the same with the "
            f"devices' names of this testbed, and `sh {SCRIPT} --revert` puts back what the "
            f"sweep's baseline has, or what the sweep found. To keep it over a reboot, take "
            f"{sysctl}{TUNED} and {SCRIPT} as a profile into /etc/tuned."
        )
    for title, rows in (
        ("What each setting is worth alone", told.ranked),
        ("Better, but not set together with the others", told.left),
        ("Good by one figure and bad by another", told.mixed),
        ("Good on this testbed only", told.only_here),
        ("Not tested", told.not_tested),
    ):
        if rows:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"- {name}: {words}" for name, words in rows)
    if told.no_gain:
        yield ""
        yield "## No gain found"
        yield ""
        yield from (f"- {name}" for name in told.no_gain)
    yield ""
    yield "## Where the figures are"
    yield ""
    yield from (f"- {report}" for report in told.reports)


def by_hand(knobs: Mapping[str, Value]) -> Iterator[str]:
    """Yield what a person types to set knobs; what only a boot sets is a comment."""
    for name, value in knobs.items():
        knob = KNOBS[name]
        yield f"{'# boot ' if knob.boot else ''}{knob.by_hand(value)}"


def sysctls(knobs: Mapping[str, Value]) -> dict[str, str]:
    """Return the sysctls of knobs that are nothing else, by their names."""
    found: dict[str, str] = {}
    for name, value in knobs.items():
        words = shlex.split(KNOBS[name].by_hand(value))
        if words[:2] == ["sysctl", "-w"]:
            found |= dict(word.split("=", 1) for word in words[2:] if "=" in word)
    return found


def sysctl_conf(knobs: Mapping[str, Value]) -> str:
    """Return a file for /etc/sysctl.d, with DEVICE where a device's name belongs."""
    return "".join(f"{name} = {value}\n" for name, value in sysctls(knobs).items())


def tuned_conf(knobs: Mapping[str, Value]) -> str:
    """Return a profile of TuneD: sysctls without a device's name by itself, the rest by script."""
    plain = {name: value for name, value in sysctls(knobs).items() if DEVICE not in name}
    lines = ["[main]", "summary=What skblab tune advised"]
    if plain:
        lines += ["", "[sysctl]", *(f"{name}={value}" for name, value in plain.items())]
    # TuneD calls it with start and stop.
    lines += ["", "[script]", f"script=${{i:PROFILE_DIR}}/{SCRIPT}"]
    return "\n".join(lines) + "\n"
