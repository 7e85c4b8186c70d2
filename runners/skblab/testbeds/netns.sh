# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A generator, a router and a sink in namespaces of one kernel, joined by veth pairs:
#
#   generator:g0 ─ router:r0  router:r1 ─ sink:s0     through the router
#   generator:c0 ─────────────────────── sink:s1      the tester alone
#
# It goes on from net.sh, generator.sh, tester.sh and router.sh.

export IN_ROUTER="$IN/router"

# Packets wait for the router in the backlog of its CPU: veth has no NAPI of its own without GRO.
lay_out_plain() {
	quiet generator router sink
	see router sink
	pair g0 generator 02:00:00:00:00:01 r0 router 02:00:00:00:00:02
	pair r1 router 02:00:00:00:00:03 s0 sink 02:00:00:00:00:04
	pair c0 generator 02:00:00:00:00:05 s1 sink 02:00:00:00:00:06
	be_router
	sink s0
	sink s1
}

# The router's devices have NAPI, as network cards do.
lay_out() {
	lay_out_plain
	for device in r0 r1; do $IN_ROUTER ethtool -K "$device" gro on; done
	# veth hands packets to the NAPI at the far end only if the sender has no TSO: those of one that
	# has need no GRO (veth_skb_is_eligible_for_gro).
	ip netns exec generator ethtool -K g0 tso off
	# What GRO has merged in the router leaves it as frames, as on a wire: the sink counts each.
	$IN_ROUTER ethtool -K r1 tx-udp-segmentation off tx-gso-list off
}

# Prints what `send` does, and what the router handed over, which without one is nothing; with one
# CPU also what each process there has had of it, before and after, for processes.py.
offer() { # whole|tester name=value...
	[ "$1" = tester ] || set -- "$@" "tag=$(tag)"
	forwarded=$(handed_over r1)
	before=$(processes)
	told=$(send "$@")
	after=$(processes)
	echo "$told $(($(handed_over r1) - forwarded))"
	[ -z "$before" ] || printf '== before\n%s\n== after\n%s\n' "$before" "$after"
}

processes() {
	read -r online </sys/devices/system/cpu/online
	# One that ends meanwhile has no file any more.
	[ "$online" != 0 ] || grep . /proc/[0-9]*/comm /proc/[0-9]*/schedstat 2>/dev/null || :
}
