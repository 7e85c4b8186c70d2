# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The device under test, a router with the devices r0 and r1, that IN_ROUTER is the way to: see WHERE
# in net.sh.

# Addresses of the tester's ports behind it.
G0_MAC=02:00:00:00:00:01 S0_MAC=02:00:00:00:00:04

# Whether its devices are in a VRF, which a boot has asked for (knobs/boot.py), and its name.
VRF_FLAG=/run/skblab-vrf VRF=skbvrf

# Before they have addresses: they lose these, and their neighbours, when they come into it. Where the
# kernel has no VRF they stay as they are, which the knob then reads.
be_in_a_vrf() {
	[ -e "$VRF_FLAG" ] || return 0
	$IN_ROUTER ip link add "$VRF" type vrf table 83 || return 0
	speak "$IN_ROUTER" "$VRF"
	$IN_ROUTER ip link set "$VRF" up
	$IN_ROUTER ip link set r0 master "$VRF"
	$IN_ROUTER ip link set r1 master "$VRF"
}

# Both ways: what a router sends back, such as an error, must not wait for an answer.
be_router() {
	be_in_a_vrf
	speak "$IN_ROUTER" r0 r1
	give_address "$IN_ROUTER" r0 198.18.0.1/24 198.18.0.2 "$G0_MAC"
	give_address "$IN_ROUTER" r1 198.19.0.1/24 198.19.0.2 "$S0_MAC"
	give_address "$IN_ROUTER" r0 2001:db8:0:1::1/64 2001:db8:0:1::2 "$G0_MAC"
	give_address "$IN_ROUTER" r1 2001:db8:0:2::1/64 2001:db8:0:2::2 "$S0_MAC"
	$IN_ROUTER sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

# Where no route of the router's own leads: random destinations need one.
lead_all_to_the_sink() {
	in_vrf=
	[ ! -e "$VRF_FLAG" ] || in_vrf="vrf $VRF"
	# shellcheck disable=SC2086  # it is two words, or none
	$IN_ROUTER ip route add $in_vrf default via 198.19.0.2 dev r1
	# shellcheck disable=SC2086
	$IN_ROUTER ip route add $in_vrf default via 2001:db8:0:2::2 dev r1
}

# What follows runs in every trial: where the router's devices are seen from here, by no process.

# The folder of its devices, if they are.
devices_of_router() {
	if [ "$IN_ROUTER" ]; then devices=$SEEN/router/class/net; else devices=/sys/class/net; fi
	[ -d "$devices" ]
}

# The ID of the VLAN that the router is in, or nothing.
tag() {
	if devices_of_router; then
		[ -e "$devices/skbvlan0" ] || return 0
	else
		$IN_ROUTER test -e /proc/net/vlan/skbvlan0 || return 0
	fi
	$IN_ROUTER ip -d link show skbvlan0 | sed -n 's/.*802.1Q id \([0-9]*\) .*/\1/p'
}

# Packets that the router gave to the link so far, also those that the far end had no room for.
handed_over() { # device of the router
	if devices_of_router && [ -d "$devices/$1" ]; then
		read -r packets <"$devices/$1/statistics/tx_packets"
		read -r dropped <"$devices/$1/statistics/tx_dropped"
		echo $((packets + dropped))
	else
		$IN_ROUTER cat /proc/net/dev | handed_over_by "$1"
	fi
}

handed_over_by() { # device of the router
	while read -r name _ _ _ _ _ _ _ _ _ packets _ dropped _; do
		[ "$name" != "$1:" ] || { echo $((packets + dropped)); return; }
	done
	echo "no device $1 (any more)" >&2
	return 1
}
