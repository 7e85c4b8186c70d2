# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2086  # IN is words
# title: forwarding, IPv4, through one more network namespace

#   router:r1 ─ inner:i0  inner:i1 ─ sink:s0    instead of router:r1 ─ sink:s0
prepare() {
	lay_out
	quiet inner
	ip -n sink link del s0
	pair r1 router 02:00:00:00:00:03 i0 inner 02:00:00:00:00:0c
	pair i1 inner 02:00:00:00:00:0d s0 sink "$S0_MAC"
	$IN_ROUTER ethtool -K r1 gro on
	give_address "$IN_ROUTER" r1 198.19.1.1/24 198.19.1.2 02:00:00:00:00:0c
	$IN_ROUTER ip route add 198.19.0.0/24 via 198.19.1.2 dev r1
	give_address "$IN/inner" i0 198.19.1.2/24 198.19.1.1 02:00:00:00:00:03
	give_address "$IN/inner" i1 198.19.0.1/24 198.19.0.2 "$S0_MAC"
	$IN/inner ip route add 198.18.0.0/24 via 198.19.1.1 dev i0
	$IN/inner sysctl -q -w net.ipv4.ip_forward=1
	for device in i0 i1; do $IN/inner ethtool -K "$device" gro on; done
	$IN_ROUTER ethtool -K r1 tso off
	sink s0
}

load() { sent_family 4; }
