# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2086  # WHERE is words
# What every topology is made of: quiet namespaces, veth pairs, addresses, neighbours and sinks, for
# demo, benchmark, probe and sweeps alike. WHERE is what a command in a namespace begins with, such as
# $IN/router; nothing where it is the whole machine.

IN='nsenter --net=/run/netns'
# In guests of ours, the devices of namespaces as sysfs has them, for who is outside: see `see`.
SEEN=/run/skblab-seen

# Nothing but the generator may send: no router solicitation, no detection of duplicate addresses.
SILENT='sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
	net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.accept_dad=0
	net.ipv6.conf.default.addr_gen_mode=1'

quiet() { # namespace...
	for namespace; do
		ip netns add "$namespace"
		ip netns exec "$namespace" $SILENT
	done
}

# sysfs shows the devices of the namespace that has mounted it. Not on a user's machine, which would
# have to be rid of it again.
see() { # namespace...
	for namespace; do
		mkdir -p "$SEEN/$namespace"
		$IN/$namespace mount -t sysfs seen "$SEEN/$namespace"
	done
}

pair() { # name namespace mac  peer namespace mac
	ip link add "$1" netns "$2" address "$3" type veth peer name "$4" netns "$5" address "$6"
	ip -n "$2" link set "$1" up
	ip -n "$5" link set "$4" up
}

# The same where this runs, without a namespace's name.
pair_here() { # name mac  peer mac
	ip link add "$1" address "$2" type veth peer name "$3" address "$4"
	ip link set "$1" up
	ip link set "$3" up
}

# IPv6 where it is silent otherwise, also of devices that were there before. What they repeat of the
# groups that their addresses are in comes at once, not up to a second later, when packets are counted.
speak() { # WHERE device...
	where=$1
	shift
	for device; do
		$where sysctl -q -w "net.ipv6.conf.$device.accept_ra=0" \
			"net.ipv6.conf.$device.accept_dad=0" "net.ipv6.conf.$device.addr_gen_mode=1" \
			"net.ipv6.conf.$device.mldv2_unsolicited_report_interval=1" \
			"net.ipv6.conf.$device.disable_ipv6=0"
	done
}

# A device's address, and who is at its other end: nobody has to ask or to answer.
give_address() { # WHERE device address/length neighbour mac
	case $3 in *:*) nodad=nodad ;; *) nodad= ;; esac
	$1 ip address replace "$3" dev "$2" $nodad
	$1 ip neighbour replace "$4" lladdr "$5" nud permanent dev "$2"
}

# A device of the namespace sink that answers nothing.
sink() { # device
	tc -n sink qdisc add dev "$1" clsact
	tc -n sink filter add dev "$1" ingress matchall action drop
}

# What follows runs in every trial, on CPUs that are slow: few processes, and none that `ip netns exec`
# mounts a file system for.

# Packets that came to the sink so far.
came() { # device
	if [ -d "$SEEN/sink" ]; then
		read -r packets <"$SEEN/sink/class/net/$1/statistics/rx_packets"
		echo "$packets"
		return
	fi
	$IN/sink cat /proc/net/dev | while read -r name _ packets _; do
		[ "$name" != "$1:" ] || echo "$packets"
	done
}

# Once nothing more comes: a packet that is still under way is not lost. A guest that its host has no
# time for stands still for longer than one look. Where `all` have come, nothing is under way.
settled() { # device of the sink [all]
	now=$(came "$1")
	same=0
	while [ "$same" -lt 3 ] && [ "$now" != "${2:-}" ]; do
		sleep 0.05
		last=$now
		now=$(came "$1")
		if [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; fi
	done
	echo "$now"
}
