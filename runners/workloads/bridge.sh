# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: through a bridge, among 64 addresses to 64 others

# Of one pair of addresses, what a packet takes would be a matter of chance: of which buckets of the
# bridge's hash table they are in, by a key that each bridge draws.
prepare() {
	lay_out
	$IN_ROUTER ip link add br0 type bridge || lacking "it has no bridges (CONFIG_BRIDGE)"
	for device in r0 r1; do $IN_ROUTER ip link set "$device" master br0; done
	$IN_ROUTER ip link set br0 up
	# Where the frames go to is known, and nothing is flooded. None of the addresses is a port's.
	seq 0 63 | awk '{ printf "fdb replace 02:00:00:00:01:%02x dev r1 master static\n", $1 }' |
		$IN_ROUTER bridge -batch -
	ip -n generator link set g0 address 02:00:00:00:02:00
	rest
}

load() {
	sent tester c0 "$S1_MAC" settled s1 macs=64
	sent whole g0 02:00:00:00:01:00 settled s0 macs=64
}
