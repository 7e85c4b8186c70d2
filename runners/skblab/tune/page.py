# SPDX-License-Identifier: GPL-2.0-or-later
"""The advice that `skblab tune` writes for whoever runs the router: Markdown, sysctl.d, TuneD."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skblab.knobs import effects
from skblab.knobs.base import DEVICE, Knob
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.tune.script import REVERT, SHOW, SYSCTLS, settable, sysctls

SCRIPT, PAGE, SYSCTL, TUNED = "advice.sh", "advice.md", "sysctl.conf", "tuned.conf"
Worth = tuple[str, str]
RULES = "netfilter"
_COMMAND = re.compile(r"(# boot |sysctl |ethtool |echo |ip |tc |systemctl )")
NOT_YOURS = (
    "This was not your router but a guest of skblab's on one machine. Which settings are better, "
    "and by how much, can differ on yours: measure again with `--hosts FILE`."
)


@dataclass(frozen=True)
class Told:
    """What both sweeps came to, in words that the report has for it.

    `together` are the settings that are advised, `knobs` what they are. `ranked`, `elsewhere`,
    `mixed`, `worse` and `only_here` are settings with what they are worth, `guest` is whether that
    was measured in a guest of ours; `baseline` what all are compared with, in words; `added` what
    each adds to all the
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
    worse: Sequence[Worth] = ()
    guest: bool = False
    baseline: str = "the machine as it comes"
    added: Sequence[Worth] = ()
    not_tried: str = ""
    # What knobs there are: those of commands are the experiment's own.
    catalogue: Mapping[str, Knob] = field(default_factory=lambda: KNOBS)


def page(told: Told) -> Iterator[str]:
    """Yield the lines of the Markdown page."""
    yield f"# What to set, for {told.goal}"
    yield ""
    yield (
        f"Asked was: {told.question} Measured in {told.where}, Linux {told.kernel}, "
        f"traffic: {'; '.join(told.traffic)}."
    )
    yield ""
    yield f"Differences are from the baseline ({told.baseline}), with 95 % intervals.{_goals(told)}"
    if told.guest:
        yield ""
        yield NOT_YOURS
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
        yield from _commands(told.knobs, told.catalogue)
        yield from _how(told.knobs)
        if changed := list(effects.told(told.knobs)):
            yield ""
            yield "## What these settings change beside that"
            yield ""
            yield from (f"- {setting}: {words}" for setting, words in changed)
    for title, rows in (
        (
            "What each setting is worth alone" if not told.why_none else "The first sweep alone",
            told.ranked,
        ),
        ("What changes if one is left out", told.added),
        ("Better, but not set with the others", told.left),
        ("Better by another figure than the one that was asked for", told.elsewhere),
        ("Better by one figure and worse by another", told.mixed),
        ("Better in this test setup only", told.only_here),
        ("Worse", told.worse),
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
        yield "## No significant difference alone"
        yield ""
        yield from (f"- {name}" for name in told.no_gain)
    yield ""
    yield "## Where the figures are"
    yield ""
    yield from (f"- {report}" for report in told.reports)


def _goals(told: Told) -> str:
    """Return what a goal's name in brackets means, if there is one."""
    words = told.confirmed + "".join(words for _, words in (*told.ranked, *told.mixed))
    return " strict: the highest rate at which no frame is lost (RFC 2544)." * ("(strict)" in words)


def _commands(knobs: Mapping[str, Value], catalogue: Mapping[str, Knob]) -> Iterator[str]:
    """Yield what can be typed as it is, then what has to be put into a router's own words."""
    lines = list(by_hand(knobs, catalogue))
    if plain := [line for line in lines if _typed(line)]:
        yield from (f"    {line}" for line in plain)
        yield ""
    if others := [line for line in lines if not _typed(line)]:
        yield "To put into your router's own words:"
        yield ""
        yield from (f"- `{line}`" for line in others)
        yield ""
    if RULES in knobs:
        yield (
            "The rules of the sweep are made up: arrange your own rules that way, and load none "
            "of these."
        )
        yield ""


def _typed(line: str) -> bool:
    """Whether a shell takes a line as it is, once the words in capitals are filled in."""
    return bool(_COMMAND.match(line)) and ", " not in line


def _how(knobs: Mapping[str, Value]) -> Iterator[str]:
    """Yield how to set them, sentence by sentence."""
    yield (
        f"{DEVICE} is each port that forwards the traffic, not one for management. Replace every "
        "other word in capitals, too."
    )
    of_script = settable(knobs)
    if of_script:
        rest = "all of it" if len(of_script) == len(knobs) else ", ".join(of_script)
        yield (
            f"On the router, `sh {SCRIPT} {SHOW} {DEVICE} …` prints old and new values and changes "
            f"nothing; `sh {SCRIPT} {DEVICE} …` saves the old ones and sets {rest}, until the next "
            f"boot; `sh {SCRIPT} {REVERT}` puts the old ones back."
        )
    if others := [name for name in knobs if name not in of_script]:
        yield f"To set by hand, or by your distribution's own files: {', '.join(others)}."
    yield from _lasting(knobs)


def _lasting(knobs: Mapping[str, Value]) -> Iterator[str]:
    """Yield which file keeps what over a reboot, and what none does."""
    kept = [name for name, value in knobs.items() if sysctls({name: value})]
    plain = [
        name for name in kept if not any(DEVICE in key for key in sysctls({name: knobs[name]}))
    ]
    if len(plain) < len(kept):
        yield (
            f"Over a reboot, `sh {SCRIPT} {SYSCTLS} {DEVICE} … >/etc/sysctl.d/90-skblab.conf` "
            f"keeps: {', '.join(kept)}."
        )
    elif kept:
        yield f"Over a reboot, {SYSCTL} in /etc/sysctl.d keeps: {', '.join(kept)}."
    if plain:
        yield f"{TUNED} in a folder of /etc/tuned is a profile for TuneD with: {', '.join(plain)}."
    if others := [name for name in knobs if name not in kept]:
        yield f"No file here keeps over a reboot: {', '.join(others)}."


def by_hand(knobs: Mapping[str, Value], catalogue: Mapping[str, Knob]) -> Iterator[str]:
    """Yield what a person types to set knobs; what only a boot sets is a comment."""
    for name, value in knobs.items():
        knob = catalogue[name]
        yield f"{'# boot ' if knob.boot else ''}{knob.by_hand(value)}"


def sysctl_conf(knobs: Mapping[str, Value]) -> str:
    """Return a file for /etc/sysctl.d; what is of a device is a comment. Empty without sysctls."""
    found = sysctls(knobs)
    head = f"# Lines of {DEVICE} are for each port: sh {SCRIPT} {SYSCTLS} PORT… prints them.\n"
    return (head if any(DEVICE in name for name in found) else "") + "".join(
        f"{'# ' if DEVICE in name else ''}{name} = {value}\n" for name, value in found.items()
    )


def tuned_conf(knobs: Mapping[str, Value]) -> str:
    """Return a profile of TuneD with the sysctls that are of no device; empty without any."""
    found = sysctls(knobs)
    if all(DEVICE in name for name in found):
        return ""
    lines = ["[main]", "summary=What skblab tune advised", "", "[sysctl]"]
    lines += [
        f"# not here, as each port has its own: {name}={value}"
        if DEVICE in name
        else f"{name}={value}"
        for name, value in found.items()
    ]
    return "".join(f"{line}\n" for line in lines)
