# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # PROTOCOL is set by the line that nexthops.py puts before.
# A route of ours to one address by several next hops, which are all the machine that has it: their
# hardware addresses are its own.

show() { # family address/length
	echo "$2 $(ip -j "-$1" route show to exact "$2" proto "$PROTOCOL")"
}

clear() { # family address/length hops
	ip "-$1" route flush to exact "$2" proto "$PROTOCOL"
	ip "-$1" neighbour flush to "$3" nud permanent
}

# By the device that packets leave by already, which may be a VLAN; that route stays behind ours.
make() { # family address/length hop…
	family=$1 to=$2
	shift 2
	out=$(ip -o "-$family" route get "${to%/*}" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	mac=$(ip neighbour show to "${to%/*}" dev "$out" | sed -n 's/.*lladdr \([^ ]*\).*/\1/p')
	if [ -z "$mac" ]; then
		echo "$out knows no hardware address of ${to%/*}" >&2
		return 1
	fi
	hops=
	for hop; do
		ip neighbour replace "$hop" lladdr "$mac" nud permanent dev "$out"
		hops="$hops nexthop via $hop dev $out onlink"
	done
	if [ "$family" = 4 ]; then how=prepend metric=0; else how=add metric=1; fi
	# shellcheck disable=SC2086  # they are words
	ip "-$family" route "$how" "$to" proto "$PROTOCOL" metric "$metric" $hops
}
