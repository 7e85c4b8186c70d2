# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # PROTOCOL is set by the line that link.py puts before.
# A bridge of ours, of which a device is the only port. It has the device's hardware address: what the
# neighbours send comes to it.

show() { # device bridge
	if [ -e "/sys/class/net/$2/brif/$1" ]; then echo "$1 bridge"; else echo "$1 none"; fi
}

clear() { # bridge
	if [ -e "/sys/class/net/$1" ]; then ip link delete "$1"; fi
}

# No timers of its own: it learns from nobody who asks for multicast, and forwards at once.
make() { # device bridge
	read -r mac <"/sys/class/net/$1/address"
	ip link add "$2" address "$mac" type bridge forward_delay 0 mcast_snooping 0
	ip link set "$2" addrgenmode none
	# As those of a VLAN, see vlan.sh.
	conf=/proc/sys/net/ipv6/conf/$2
	echo 1 >"$conf/force_mld_version"
	echo 0 >"$conf/forwarding"
	echo 0 >"$conf/accept_ra"
	echo 0 >"$conf/disable_ipv6"
	ip link set "$1" master "$2"
	ip link set "$2" up
}

# The neighbour keeps the hardware address that it has on the device itself; it is known to be there.
reach() { # device bridge address prefix
	mac=$(ip neighbour show to "$3" dev "$1" | sed -n 's/.*lladdr \([^ ]*\).*/\1/p')
	if [ "$mac" ]; then
		ip neighbour replace "$3" lladdr "$mac" nud permanent dev "$2"
		bridge fdb replace "$mac" dev "$1" master static
	fi
	ip route replace "$4" dev "$2" proto "$PROTOCOL"
}
