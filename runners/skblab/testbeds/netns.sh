# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A generator, a router and a sink in namespaces of one kernel, joined by veth pairs:
#
#   generator:g0 ─ router:r0  router:r1 ─ sink:s0     through the router
#   generator:c0 ─────────────────────── sink:s1      the tester alone
#
# The router's devices have NAPI, as network cards do, which veth has with GRO only. It goes on from
# tester.sh and router.sh.

export IN_ROUTER='nsenter --net=/run/netns/router'

pair() { # name namespace mac  peer namespace mac
	ip link add "$1" netns "$2" address "$3" type veth peer name "$4" netns "$5" address "$6"
	ip -n "$2" link set "$1" up
	ip -n "$5" link set "$4" up
}

lay_out() {
	for name in generator router sink; do quiet "$name"; done
	pair g0 generator 02:00:00:00:00:01 r0 router 02:00:00:00:00:02
	pair r1 router 02:00:00:00:00:03 s0 sink 02:00:00:00:00:04
	pair c0 generator 02:00:00:00:00:05 s1 sink 02:00:00:00:00:06
	for device in r0 r1; do
		$IN_ROUTER sysctl -q -w "net.ipv6.conf.$device.disable_ipv6=0"
		$IN_ROUTER ethtool -K "$device" gro on
	done
	# veth hands packets to the NAPI at the far end only if the sender has no TSO: those of one that
	# has need no GRO (veth_skb_is_eligible_for_gro).
	ip netns exec generator ethtool -K g0 tso off
	# What GRO has merged in the router leaves it as frames, as on a wire: the sink counts each.
	$IN_ROUTER ethtool -K r1 tx-udp-segmentation off tx-gso-list off
	be_router
	sink s0
	sink s1
}

# Prints what `send` does, and what the router handed over, which without one is nothing.
offer() { # whole|tester family bytes flows count gap limit cpu
	TAG=$(tag)
	export TAG
	forwarded=$(handed_over r1)
	told=$(send "$@")
	echo "$told $(($(handed_over r1) - forwarded))"
}
