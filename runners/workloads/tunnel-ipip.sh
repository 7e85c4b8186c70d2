# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: into a tunnel, IPv4 in IPv4

prepare() {
	lay_out
	$IN_ROUTER ip link add t0 type ipip local 198.19.0.1 remote 198.19.0.2 ||
		lacking "it has no tunnels of IPv4 in IPv4 (CONFIG_NET_IPIP)"
	$IN_ROUTER ip link set t0 up
	$IN_ROUTER ip route add 198.19.1.0/24 dev t0
}

load() { sent_family 4 to=198.19.1.2; }
