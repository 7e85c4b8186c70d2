# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # PROTOCOL is set by the line that link.py puts before.
# A device of ours above another one: a VLAN on it, or a bridge of which it is the only port.

show_vlan() { # device vlan
	echo "$1 $(if_there "$2" ip -d -j link show dev "$2")"
}

show_bridge() { # device bridge
	if [ -e "/sys/class/net/$2/brif/$1" ]; then echo "$1 bridge"; else echo "$1 none"; fi
}

if_there() { # device command…
	[ ! -e "/sys/class/net/$1" ] || {
		shift
		"$@"
	}
}

clear() { # ours
	if_there "$1" ip link delete "$1"
}

vlan() { # device vlan ID
	ip link add link "$1" name "$2" type vlan id "$3"
	quiet "$2"
	ip link set "$2" up
}

# It has the device's hardware address: what the neighbours send comes to it. It has no timers of its
# own: it learns from nobody who asks for multicast, and forwards at once.
bridge_of() { # device bridge
	read -r mac <"/sys/class/net/$1/address"
	ip link add "$2" address "$mac" type bridge forward_delay 0 mcast_snooping 0
	quiet "$2"
	ip link set "$1" master "$2"
	ip link set "$2" up
}

quiet() { # ours
	ip link set "$1" addrgenmode none
	# It leaves the group of all routers, which it would report to the sink twice within a second, among
	# the packets; of its leave it tells nobody in version 1 of MLD. Whether a packet is forwarded is
	# asked of all devices at once. One that is no router would listen to others.
	conf=/proc/sys/net/ipv6/conf/$1
	echo 1 >"$conf/force_mld_version"
	echo 0 >"$conf/forwarding"
	echo 0 >"$conf/accept_ra"
	echo 0 >"$conf/disable_ipv6"
}

# The neighbour keeps the hardware address that it has on the device itself; a bridge knows its port.
reach() { # device ours address prefix
	mac=$(ip neighbour show to "$3" dev "$1" | sed -n 's/.*lladdr \([^ ]*\).*/\1/p')
	if [ "$mac" ]; then
		ip neighbour replace "$3" lladdr "$mac" nud permanent dev "$2"
		if [ -e "/sys/class/net/$2/bridge" ]; then
			bridge fdb replace "$mac" dev "$1" master static
		fi
	fi
	ip route replace "$4" dev "$2" proto "$PROTOCOL"
}
