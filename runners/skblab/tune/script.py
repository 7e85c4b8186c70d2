# SPDX-License-Identifier: GPL-2.0-or-later
"""The script that sets on a router what is advised, and with --revert puts back what it found.

It has only what one file or one offload flag sets. It keeps what was there before it sets anything,
puts that back if something fails, and never touches rules, routes, queues, interrupts or tracked
connections: those of a router are its owner's, and those of a sweep are made up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from skblab.knobs.base import DEVICE
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value

REVERT = "--revert"
SAVED = "/var/lib/skblab-advice"
_SYSCTL = re.compile(r"sysctl -w [^;|&]+")
_SET = re.compile(r"([\w./-]+)=([\w.-][\w. -]*)")
_SWAPPED = str.maketrans("./", "/.")
_FILE = re.compile(rf"echo ([\w.-]+) >(/sys/class/net/{DEVICE}/[\w./-]+)")
_FEATURE = re.compile(rf"ethtool -K {DEVICE} ([\w-]+) (on|off)")
# Names by which ethtool takes a feature and does not show it.
_SHOWN = {
    "gro": "generic-receive-offload",
    "gso": "generic-segmentation-offload",
    "lro": "large-receive-offload",
    "tso": "tcp-segmentation-offload",
    "rx": "rx-checksumming",
    "tx": "tx-checksumming",
}

_SCRIPT = """#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
{about}
# Set it:     sh {name} DEVICE…     the network devices of the router
# Put back:   sh {name} {revert}
set -eu
saved={saved}

# The newest first: what came last is put back first.
save() {{
	printf '%s\\n' "$1" | cat - "$saved" >"$saved.new"
	mv "$saved.new" "$saved"
}}

put() {{
	[ -w "$1" ] || {{ echo "$0: $1 cannot be written" >&2; exit 1; }}
	save "printf '%s\\\\n' '$(cat "$1")' >'$1'"
	printf '%s\\n' "$2" >"$1"
}}

feature() {{
	was=$(ethtool -k "$1" | sed -n "s/^$2: \\([a-z]*\\).*/\\1/p")
	save "ethtool -K '$1' $2 $was"
	ethtool -K "$1" "$2" "$3"
}}

back() {{
	sh -e "$saved"
	rm "$saved"
}}

if [ "${{1-}}" = {revert} ]; then
	[ -e "$saved" ] || {{ echo "$0: nothing is set by it" >&2; exit 2; }}
	back
	exit
fi
case "${{1-}}" in "" | -*)
	echo "$0: expected the router's network devices, or {revert}" >&2
	exit 2
	;;
esac
if [ -e "$saved" ]; then
	echo "$0: it is set already; sh $0 {revert} puts back what was there" >&2
	exit 2
fi
for device; do
	[ -d "/sys/class/net/$device" ] || {{ echo "$0: no network device $device" >&2; exit 2; }}
done
: >"$saved"
trap '[ $? = 0 ] || {{ echo "$0: it failed; putting back" >&2; back; }}' EXIT
{once}for device; do
	:
{each}done
"""


def settable(knobs: Mapping[str, Value]) -> dict[str, Value]:
    """Return the knobs that the script sets."""
    return {name: value for name, value in knobs.items() if list(_calls(name, value))}


def script(name: str, about: Sequence[str], knobs: Mapping[str, Value]) -> str:
    """Return the script of knobs that are `settable`; `about` are lines of its comment."""
    calls = [call for knob, value in knobs.items() for call in _calls(knob, value)]
    return _SCRIPT.format(
        about="\n".join(f"# {line}" for line in about),
        name=name,
        revert=REVERT,
        saved=shlex.quote(SAVED),
        once="".join(f"{call}\n" for call in calls if "$device" not in call),
        each="".join(f"\t{call}\n" for call in calls if "$device" in call),
    )


def sysctls(knobs: Mapping[str, Value]) -> dict[str, str]:
    """Return the sysctls that knobs are, by their names, with DEVICE for a device's."""
    found: dict[str, str] = {}
    for name, value in knobs.items():
        by_hand = _by_hand(name, value)
        words = shlex.split(by_hand)[2:] if _SYSCTL.fullmatch(by_hand) else []
        matches = [_SET.fullmatch(word) for word in words]
        if all(matches):
            found |= {match[1]: match[2] for match in matches if match}
    return found


def _by_hand(name: str, value: Value) -> str:
    """Return what sets a knob; nothing for commands of the user's own, which are never run here."""
    knob = KNOBS.find(name)
    return knob.by_hand(value) if knob else ""


def _calls(name: str, value: Value) -> Iterator[str]:
    """Yield the calls of the script's functions that set a knob; none if it is nothing like it."""
    by_hand = _by_hand(name, value)
    for key, wanted in sysctls({name: value}).items():
        path = f"/proc/sys/{key.translate(_SWAPPED)}".replace(DEVICE, "$device")
        yield f'put "{path}" {shlex.quote(wanted)}'
    if match := _FILE.fullmatch(by_hand):
        yield f'put "{match[2].replace(DEVICE, "$device")}" {match[1]}'
    if match := _FEATURE.fullmatch(by_hand):
        yield f'feature "$device" {_SHOWN.get(match[1], match[1])} {match[2]}'
