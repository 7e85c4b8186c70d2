# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, in a VLAN
# knobs: router

prepare() {
	lay_out
	for port in r0:198.18.0:"$G0_MAC" r1:198.19.0:"$S0_MAC"; do
		device=${port%%:*} net=${port#*:} net=${net%%:*} mac=${port#*:*:}
		$IN_ROUTER ip link add link "$device" name "$device.5" type vlan id 5 ||
			lacking "it has no VLANs (CONFIG_VLAN_8021Q)"
		$IN_ROUTER ip address flush dev "$device"
		$IN_ROUTER ip link set "$device.5" up
		give_address "$IN_ROUTER" "$device.5" "$net.1/24" "$net.2" "$mac"
	done
}

load() { sent_family 4 tag=5; }
