# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # `packets`, `repeats` and `frame` are set by the caller.
# The forwarding experiment in `exact` mode, where the guest's clock counts instructions.
#
#   generator:g0 ─ rtr:r0  (router)  rtr:r1 ─ sink:s0     what is measured
#   generator:c0 ──────────────────────────── sink:s1     the tester alone: generator, veth, sink
#
# It goes on from generator.sh. The sink drops at tc ingress: it answers nothing, and it counts. One CPU, never idle between
# pktgen's first and last packet, so pktgen's elapsed time is instructions / 1000.
# Prints a line a trial: setting repeat packets elapsed_us delivered
set -eu

pair() { # name namespace mac  peer namespace mac
	ip link add "$1" netns "$2" address "$3" type veth peer name "$4" netns "$5" address "$6"
	ip -n "$2" link set "$1" up
	ip -n "$5" link set "$4" up
}

sink() { # device
	tc -n sink qdisc add dev "$1" clsact
	tc -n sink filter add dev "$1" ingress matchall action drop
}

# Packets that the sink's filter so far.
dropped() { # device
	tc -n sink -s -j filter show dev "$1" ingress |
		sed -n 's/.*"stats":{"bytes":[0-9]*,"packets":\([0-9]*\),.*/\1/p' | head -n 1
}

trial() { # setting repeat device destination-mac sink-device
	before=$(dropped "$5")
	told=$(generate device="$3" mac="$4" size="$frame" count="$packets")
	echo "$1 $2 ${told%% *} ${told##* } $(($(dropped "$5") - before))"
}

rp_filter() { # value; read back, or the trial is void
	for name in all default r0 r1; do
		ip netns exec rtr sysctl -q -w "net.ipv4.conf.$name.rp_filter=$1"
		[ "$(ip netns exec rtr sysctl -n "net.ipv4.conf.$name.rp_filter")" = "$1" ]
	done
}

for name in generator rtr sink; do
	ip netns add "$name"
	# No router solicitation may be among the counted packets.
	ip netns exec "$name" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1
done
pair g0 generator 02:00:00:00:00:01 r0 rtr 02:00:00:00:00:02
pair r1 rtr 02:00:00:00:00:03 s0 sink 02:00:00:00:00:04
pair c0 generator 02:00:00:00:00:05 s1 sink 02:00:00:00:00:06
ip -n rtr address add 198.18.0.1/24 dev r0
ip -n rtr address add 198.19.0.1/24 dev r1
ip -n rtr neighbour replace 198.18.0.2 lladdr 02:00:00:00:00:01 nud permanent dev r0
ip -n rtr neighbour replace 198.19.0.2 lladdr 02:00:00:00:00:04 nud permanent dev r1
ip netns exec rtr sysctl -q -w net.ipv4.ip_forward=1
sink s0
sink s1

# One round outside the counts fills the caches of memory, routes and neighbours.
packets_asked=$packets
packets=2000
rp_filter 1
trial warm-up 0 c0 02:00:00:00:00:06 s1 >/dev/null
trial warm-up 0 g0 02:00:00:00:00:02 s0 >/dev/null
packets=$packets_asked

repeat=1
while [ "$repeat" -le "$repeats" ]; do
	trial tester "$repeat" c0 02:00:00:00:00:06 s1
	# Every other round runs backwards, so that a drift would not look like a difference.
	if [ $((repeat % 2)) = 1 ]; then order='0 1'; else order='1 0'; fi
	for value in $order; do
		rp_filter "$value"
		trial "rp_filter=$value" "$repeat" g0 02:00:00:00:00:02 s0
	done
	repeat=$((repeat + 1))
done
