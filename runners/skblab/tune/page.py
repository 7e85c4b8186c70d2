# SPDX-License-Identifier: GPL-2.0-or-later
"""The advice that `skblab tune` writes for whoever runs the router: Markdown, sysctl.d, TuneD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skblab.knobs.base import DEVICE, Knob
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.tune.script import REVERT, settable, sysctls

SCRIPT, PAGE, SYSCTL, TUNED = "advice.sh", "advice.md", "sysctl.conf", "tuned.conf"
Worth = tuple[str, str]


@dataclass(frozen=True)
class Told:
    """What both sweeps came to, in words that the report has for it.

    `together` are the settings that are advised, `knobs` what they are. `ranked`, `elsewhere`,
    `mixed` and `only_here` are settings with what they are worth, `added` what each adds to all the
    others; `not_tried` says why that is not known, and is empty if it is, or was not to be. `left`
    are those that are not set with better ones, each with the reason, `not_tested` those without a
    figure. `confirmed` says what was found when it was measured again, and is empty if it was not;
    `why_none` why nothing is advised, and is empty if something is.
    """

    question: str
    goal: str
    where: str
    kernel: str
    traffic: Sequence[str]
    together: Sequence[str]
    ranked: Sequence[Worth]
    elsewhere: Sequence[Worth]
    mixed: Sequence[Worth]
    only_here: Sequence[Worth]
    left: Sequence[Worth]
    not_tested: Sequence[Worth]
    no_gain: Sequence[str]
    confirmed: str
    caution: str
    why_none: str
    reports: Sequence[str]
    knobs: Mapping[str, Value]
    added: Sequence[Worth] = ()
    not_tried: str = ""
    # What knobs there are: those of commands are the experiment's own.
    catalogue: Mapping[str, Knob] = field(default_factory=lambda: KNOBS)


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
        yield f"**Set {' and '.join(told.together)}.** {told.confirmed}"
        if told.caution:
            yield ""
            yield told.caution
        yield ""
        yield from (f"    {line}" for line in by_hand(told.knobs, told.catalogue))
        yield ""
        yield from _how(told.knobs)
    for title, rows in (
        ("What each setting is worth alone", told.ranked),
        ("What each adds to all the others", told.added),
        ("Better, but not set with the others", told.left),
        ("Better by another figure than the one that was asked for", told.elsewhere),
        ("Good by one figure and bad by another", told.mixed),
        ("Good on this testbed only", told.only_here),
        ("Not tested", told.not_tested),
    ):
        if rows:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"- {name}: {words}" for name, words in rows)
    if told.not_tried:
        yield ""
        yield told.not_tried
    if told.no_gain:
        yield ""
        yield "## No gain alone"
        yield ""
        yield from (f"- {name}" for name in told.no_gain)
    yield ""
    yield "## Where the figures are"
    yield ""
    yield from (f"- {report}" for report in told.reports)


def _how(knobs: Mapping[str, Value]) -> Iterator[str]:
    """Yield how to set them, sentence by sentence."""
    yield f"{DEVICE} is each network device of the router; words in capitals are yours to fill in."
    of_script = settable(knobs)
    if of_script:
        rest = "all of it" if len(of_script) == len(knobs) else ", ".join(of_script)
        yield (
            f"On the router, `sh {SCRIPT} {DEVICE} …` sets {rest} and keeps what was there; "
            f"`sh {SCRIPT} {REVERT}` puts that back."
        )
    if others := [name for name in knobs if name not in of_script]:
        yield f"To set by hand, or by your distribution's own files: {', '.join(others)}."
    if plain := sysctl_conf(knobs):
        lasting = f"{SYSCTL} in /etc/sysctl.d"
        if tuned_conf(knobs):
            lasting += f", or {TUNED} in a folder of /etc/tuned"
        kept = plain.count("\n")
        yield f"To keep {'it' if kept == len(knobs) else 'the sysctls'} over a reboot: {lasting}."


def by_hand(knobs: Mapping[str, Value], catalogue: Mapping[str, Knob]) -> Iterator[str]:
    """Yield what a person types to set knobs; what only a boot sets is a comment."""
    for name, value in knobs.items():
        knob = catalogue[name]
        yield f"{'# boot ' if knob.boot else ''}{knob.by_hand(value)}"


def sysctl_conf(knobs: Mapping[str, Value]) -> str:
    """Return a file for /etc/sysctl.d; what is of a device is a comment. Empty without sysctls."""
    return "".join(
        f"{'# for each device: ' if DEVICE in name else ''}{name} = {value}\n"
        for name, value in sysctls(knobs).items()
    )


def tuned_conf(knobs: Mapping[str, Value]) -> str:
    """Return a profile of TuneD with the sysctls that are of no device; empty without any."""
    plain = {name: value for name, value in sysctls(knobs).items() if DEVICE not in name}
    if not plain:
        return ""
    lines = ["[main]", "summary=What skblab tune advised", "", "[sysctl]"]
    return "".join(f"{line}\n" for line in (*lines, *(f"{k}={v}" for k, v in plain.items())))
