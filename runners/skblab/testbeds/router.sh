# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The device under test, a router with the devices r0 and r1: IN_ROUTER is what a command there
# begins with, such as `nsenter --net=/run/netns/router`; nothing where it is the whole machine.

# Addresses of the tester's ports behind it.
G0_MAC=02:00:00:00:00:01 S0_MAC=02:00:00:00:00:04

# Both ways: what a router sends back, such as an error, must not wait for an answer.
be_router() {
	# What it repeats of the groups that its addresses are in comes at once, not up to a second later,
	# when packets are counted.
	$IN_ROUTER sysctl -q -w net.ipv6.conf.r0.mldv2_unsolicited_report_interval=1 \
		net.ipv6.conf.r1.mldv2_unsolicited_report_interval=1
	$IN_ROUTER ip address add 198.18.0.1/24 dev r0
	$IN_ROUTER ip address add 198.19.0.1/24 dev r1
	$IN_ROUTER ip address add 2001:db8:0:1::1/64 dev r0 nodad
	$IN_ROUTER ip address add 2001:db8:0:2::1/64 dev r1 nodad
	beyond 198.18.0.2 "$G0_MAC" r0
	beyond 198.19.0.2 "$S0_MAC" r1
	beyond 2001:db8:0:1::2 "$G0_MAC" r0
	beyond 2001:db8:0:2::2 "$S0_MAC" r1
	$IN_ROUTER sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

beyond() { # address mac device
	$IN_ROUTER ip neighbour replace "$1" lladdr "$2" nud permanent dev "$3"
}

# Where no route of the router's own leads: random destinations need one.
lead_all_to_the_sink() {
	$IN_ROUTER ip route add default via 198.19.0.2 dev r1
	$IN_ROUTER ip route add default via 2001:db8:0:2::2 dev r1
}

# What follows runs in every trial: where IN_ROUTER is nothing, by no process.

# The ID of the VLAN that the router is in, or nothing.
tag() {
	$IN_ROUTER test -e /proc/net/vlan/skbvlan0 || return 0
	$IN_ROUTER ip -d link show skbvlan0 | sed -n 's/.*802.1Q id \([0-9]*\) .*/\1/p'
}

# Packets that the router gave to the link so far, also those that the far end had no room for.
handed_over() { # device of the router
	if [ "$IN_ROUTER" ]; then
		$IN_ROUTER cat /proc/net/dev | handed_over_by "$1"
	else
		handed_over_by "$1" </proc/net/dev
	fi
}

handed_over_by() { # device of the router
	while read -r name _ _ _ _ _ _ _ _ _ packets _ dropped _; do
		[ "$name" != "$1:" ] || { echo $((packets + dropped)); return; }
	done
	echo "no device $1 (any more)" >&2
	return 1
}
