# SPDX-License-Identifier: GPL-2.0-or-later
"""The script that sets on a router what is advised, and with --revert puts back what it found.

It has only what one file or one offload flag sets. It looks whether all of that can be set before
it sets anything, keeps what was there, puts that back if something fails, and never touches rules,
routes, queues, interrupts or tracked connections: those of a router are its owner's, and those of a
sweep are made up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from skblab.knobs import effects
from skblab.knobs.base import DEVICE
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value

REVERT, SHOW, SYSCTLS = "--revert", "--show", "--sysctl"
SAVED = "/run/skblab-advice"
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
# Each DEVICE is a port that forwards the traffic, not one for management.
# Look first:         sh {name} {show} DEVICE…      prints what each value is, what it would be, and
#                     what else that changes
# Set it:             sh {name} DEVICE…             until the next boot
# Put back:           sh {name} {revert}
# For /etc/sysctl.d:  sh {name} {sysctl} DEVICE…    prints those that are sysctls
set -eu
# It is gone after a boot, as what was set is.
saved={saved}
mode=apply
status=1
newline='
'

fail() {{
	echo "$0: $*" >&2
	exit "$status"
}}

# The newest first: what came last is put back first.
save() {{
	printf '%s\\n' "$1" | cat - "$saved" >"$saved.new"
	mv "$saved.new" "$saved"
}}

put() {{ # file value
	was=$(cat "$1") || fail "$1 cannot be read"
	case $mode in
	check)
		[ -w "$1" ] || fail "$1 cannot be written"
		# It is kept as a line of shell.
		case $was in
		*\\'* | *\\\\* | *"$newline"*) fail "$1 has a value that is no plain line" ;;
		esac
		;;
	show) echo "$1: $was, would be $2" ;;
	sysctl)
		case $1 in */proc/sys/*) echo "${{1##*/proc/sys/}} = $2" ;; esac
		;;
	apply)
		save "printf '%s\\\\n' '$was' >'$1'"
		printf '%s\\n' "$2" >"$1"
		;;
	esac
}}

# A line of ethtool -k as its feature, and whether that was asked for; nothing if it is fixed.
asked() {{ # line
	line=${{1#"${{1%%[![:space:]]*}}"}}
	case $line in
	*"[fixed]"*) ;;
	*"[requested on]"*) echo "${{line%%:*}} on" ;;
	*"[requested off]"*) echo "${{line%%:*}} off" ;;
	*": on"*) echo "${{line%%:*}} on" ;;
	*) echo "${{line%%:*}} off" ;;
	esac
}}

# What switching a feature switches: itself, or of a group each member for itself.
members() {{ # device feature
	ethtool -k "$1" | {{
		inside='' alone=''
		while IFS= read -r line; do
			case $line in
			"$2:"*) inside=yes alone=$line ;;
			[![:space:]]*) inside='' ;;
			*) [ -z "$inside" ] || {{ alone='' && asked "$line"; }} ;;
			esac
		done
		[ -z "$alone" ] || asked "$alone"
	}}
}}

feature() {{ # device feature on|off
	[ "$mode" != sysctl ] || return 0
	shown=$(ethtool -k "$1" | sed -n "s/^$2: //p")
	was=${{shown%% *}}
	case $mode in
	check)
		command -v ethtool >/dev/null || fail "there is no ethtool"
		case $was in on | off) ;; *) fail "ethtool -k $1 shows no $2" ;; esac
		case $shown in
		"$3"*) ;;
		*fixed*) fail "$2 of $1 is fixed: $was" ;;
		esac
		;;
	show)
		echo "$1 $2: $was, would be $3"
		members "$1" "$2" | sed "/^$2 /d; s/ /: /; s/^/  with it /; s/\\$/, would be $3/"
		;;
	apply)
		case $3 in on) other=off ;; *) other=on ;; esac
		each=$(members "$1" "$2")
		case "$each$newline" in *" $other$newline"*) ;; *) return 0 ;; esac
		# By one call: some features go with others.
		save "ethtool -K '$1' $(echo "$each" | tr '\\n' ' ' | sed 's/ $//')"
		ethtool -K "$1" "$2" "$3"
		;;
	esac
}}

# A line that fails leaves the others to be put back.
back() {{
	trap '' HUP INT TERM
	: >"$saved.left"
	while IFS= read -r line; do
		sh -c "$line" </dev/null || printf '%s\\n' "$line" >>"$saved.left"
	done <"$saved"
	if [ -s "$saved.left" ]; then
		mv "$saved.left" "$saved"
		echo "$0: not put back, and kept in $saved:" >&2
		cat "$saved" >&2
		echo "$0: if that cannot be put back any more, remove $saved" >&2
		return 1
	fi
	rm "$saved" "$saved.left"
}}

# What it changes beside that for which it is advised.
beside() {{ # setting words
	[ "$mode" != show ] || echo "$1 changes also: $2"
}}

settings() {{ # device…
{once}	for device; do
		:
{each}	done
{beside}}}

if [ "${{1-}}" = {revert} ]; then
	[ -e "$saved" ] || {{ status=2; fail "nothing is set by it since the last boot"; }}
	back
	exit
fi
case "${{1-}}" in
{show}) mode=show; shift ;;
{sysctl}) mode=sysctl; shift ;;
esac
case "${{1-}}" in "" | -*)
	status=2
	fail "expected the router's network devices, {show} or {sysctl} and them, or {revert}"
	;;
esac
for device; do
	[ -d "/sys/class/net/$device" ] || {{ status=2; fail "no network device $device"; }}
done
if [ "$mode" != apply ]; then
	settings "$@"
	exit
fi
if [ -e "$saved" ]; then
	status=2
	fail "settings are in place$(sed -n 's/^: #//p' "$saved"); put them back by: sh $0 {revert}"
fi
mode=check
settings "$@"
mode=apply
echo ": # of $0, $(date)" >"$saved"
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap '[ $? = 0 ] || {{ echo "$0: it failed; putting back" >&2; back; }}' EXIT
settings "$@"
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
        show=SHOW,
        sysctl=SYSCTLS,
        saved=shlex.quote(SAVED),
        once="".join(f"\t{call}\n" for call in calls if "$device" not in call),
        each="".join(f"\t\t{call}\n" for call in calls if "$device" in call),
        beside="".join(
            f"\tbeside {shlex.quote(setting)} {shlex.quote(words)}\n"
            for setting, words in effects.told(knobs)
        ),
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
