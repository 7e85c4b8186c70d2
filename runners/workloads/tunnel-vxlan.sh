# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: into a tunnel, VXLAN

prepare() {
	lay_out
	$IN_ROUTER ip link add t0 type vxlan id 5 remote 198.19.0.2 local 198.19.0.1 dstport 4789 noudpcsum ||
		lacking "it has no VXLAN (CONFIG_VXLAN)"
	$IN_ROUTER ip link set t0 up
	give_address "$IN_ROUTER" t0 198.19.1.1/24 198.19.1.2 02:00:00:00:00:55
}

load() { sent_family 4 to=198.19.1.2; }
