# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Three namespaces in a row, source, router and target, joined by veth pairs; packets to the router
# are received there, packets to the target forwarded. With NAPI on both pairs if NAPI is "yes".
# Neighbours are set by hand, and nothing is solicited, so that only the load's packets are counted.
set -eu
for name in source router target; do
	ip netns add "$name"
	ip netns exec "$name" sysctl -q -w net.ipv6.conf.default.router_solicitations=0 \
		net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.mldv2_unsolicited_report_interval=0
	ip -n "$name" link set lo up
done
ip netns exec router sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
pair() {
	ip link add "$1" netns "$2" address "$3" type veth peer name "$4" netns "$5" address "$6"
	ip -n "$2" link set "$1" addrgenmode none
	ip -n "$5" link set "$4" addrgenmode none
	if [ "${NAPI:-no}" = yes ]; then
		ip netns exec "$2" ethtool -K "$1" gro on
		ip netns exec "$5" ethtool -K "$4" gro on
	fi
	ip -n "$2" link set "$1" up
	ip -n "$5" link set "$4" up
}
pair s0 source 02:00:00:00:00:01 r0 router 02:00:00:00:00:02
pair r1 router 02:00:00:00:00:03 t0 target 02:00:00:00:00:04
address() { # namespace device subnet own other MAC-of-the-other
	ip -n "$1" addr add "198.18.$3.$4/24" dev "$2"
	ip -n "$1" addr add "2001:2:0:$3::$4/64" dev "$2" nodad
	ip -n "$1" neighbour replace "198.18.$3.$5" lladdr "$6" nud permanent dev "$2"
	ip -n "$1" neighbour replace "2001:2:0:$3::$5" lladdr "$6" nud permanent dev "$2"
}
address source s0 1 1 2 02:00:00:00:00:02
address router r0 1 2 1 02:00:00:00:00:01
address router r1 2 1 2 02:00:00:00:00:04
address target t0 2 2 1 02:00:00:00:00:03
ip -n source route add default via 198.18.1.2
ip -n source route add default via 2001:2:0:1::2
ip -n target route add default via 198.18.2.1
ip -n target route add default via 2001:2:0:2::1
# The receiver asks for a buffer that holds every packet: a loss is then the stack's, not ours.
sysctl -q -w net.core.rmem_max=268435456
