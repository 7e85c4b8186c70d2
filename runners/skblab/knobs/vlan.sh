# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # PROTOCOL is set by the line that link.py puts before.
# A VLAN of ours on a device.

show() { # device vlan
	echo "$1 $(if_there "$2" ip -d -j link show dev "$2")"
}

if_there() { # device command…
	[ ! -e "/sys/class/net/$1" ] || {
		shift
		"$@"
	}
}

clear() { # vlan
	if_there "$1" ip link delete "$1"
}

make() { # device vlan ID
	ip link add link "$1" name "$2" type vlan id "$3"
	ip link set "$2" addrgenmode none
	# It leaves the group of all routers, which it would report to the sink twice within a second, among
	# the packets; of its leave it tells nobody in version 1 of MLD. Whether a packet is forwarded is
	# asked of all devices at once. One that is no router would listen to others.
	conf=/proc/sys/net/ipv6/conf/$2
	echo 1 >"$conf/force_mld_version"
	echo 0 >"$conf/forwarding"
	echo 0 >"$conf/accept_ra"
	echo 0 >"$conf/disable_ipv6"
	ip link set "$2" up
}

# The neighbour keeps the hardware address that it has on the device itself.
reach() { # device vlan address prefix
	mac=$(ip neighbour show to "$3" dev "$1" | sed -n 's/.*lladdr \([^ ]*\).*/\1/p')
	if [ "$mac" ]; then ip neighbour replace "$3" lladdr "$mac" nud permanent dev "$2"; fi
	ip route replace "$4" dev "$2" proto "$PROTOCOL"
}
