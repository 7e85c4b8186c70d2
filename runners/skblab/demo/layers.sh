# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Topology of the receive experiment: `source` and `target` namespaces joined by one veth pair.
# Addresses of RFC 2544 and neighbours set by hand, so that no ARP packet is among the counted.
set -eu
for name in source target; do
	ip netns add "$name"
	# No router solicitation may be among the counted packets.
	ip netns exec "$name" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1
done
ip link add s0 netns source address 02:00:00:00:00:01 type veth \
	peer name t0 netns target address 02:00:00:00:00:02
ip -n source address add 198.18.0.1/24 dev s0
ip -n target address add 198.18.0.2/24 dev t0
ip -n source link set s0 up
ip -n target link set t0 up
ip -n source neighbour replace 198.18.0.2 lladdr 02:00:00:00:00:02 nud permanent dev s0
ip -n target neighbour replace 198.18.0.1 lladdr 02:00:00:00:00:01 nud permanent dev t0
# The receiver asks for a buffer that holds every packet: a loss is then the stack's, not ours.
sysctl -q -w net.core.rmem_max=268435456
sysctl -q -w net.core.path_trace=1
[ "$(sysctl -n net.core.path_trace)" = 1 ]
