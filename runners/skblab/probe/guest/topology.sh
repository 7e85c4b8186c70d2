# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Three namespaces in a row, source, router and target, joined by veth pairs; packets to the router
# are received there, packets to the target forwarded. With NAPI on both pairs if NAPI is "yes".
# It goes on from net.sh of the testbeds.
set -eu

ends() { # namespace device subnet own other MAC-of-the-other
	speak "$IN/$1" "$2"
	give_address "$IN/$1" "$2" "198.18.$3.$4/24" "198.18.$3.$5" "$6"
	give_address "$IN/$1" "$2" "2001:2:0:$3::$4/64" "2001:2:0:$3::$5" "$6"
	[ "${NAPI:-no}" = no ] || ip netns exec "$1" ethtool -K "$2" gro on
}

quiet source router target
for name in source router target; do
	speak "$IN/$name" lo
	ip -n "$name" link set lo up
done
ip netns exec router sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
pair s0 source 02:00:00:00:00:01 r0 router 02:00:00:00:00:02
pair r1 router 02:00:00:00:00:03 t0 target 02:00:00:00:00:04
ends source s0 1 1 2 02:00:00:00:00:02
ends router r0 1 2 1 02:00:00:00:00:01
ends router r1 2 1 2 02:00:00:00:00:04
ends target t0 2 2 1 02:00:00:00:00:03
ip -n source route add default via 198.18.1.2
ip -n source route add default via 2001:2:0:1::2
ip -n target route add default via 198.18.2.1
ip -n target route add default via 2001:2:0:2::1
# The receiver asks for a buffer that holds every packet: a loss is then the stack's, not ours.
sysctl -q -w net.core.rmem_max=268435456
