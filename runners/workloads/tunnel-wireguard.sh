# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2086  # IN is words
# title: into a tunnel, WireGuard, to where it is decrypted

# The far end is in the sink's namespace; what comes out of it there is dropped.
prepare() {
	lay_out
	$IN_ROUTER ip link add w0 type wireguard || lacking "it has no WireGuard (CONFIG_WIREGUARD)"
	ip -n sink link add w1 type wireguard
	umask 077
	for end in router sink; do wg genkey >"/run/$end.key"; done
	tc -n sink filter del dev s0 ingress
	speak "$IN/sink" s0
	give_address "$IN/sink" s0 198.19.0.2/24 198.19.0.1 02:00:00:00:00:03
	$IN_ROUTER wg set w0 listen-port 51820 private-key /run/router.key peer "$(wg pubkey </run/sink.key)" \
		allowed-ips 198.19.1.0/24 endpoint 198.19.0.2:51820
	$IN/sink wg set w1 listen-port 51820 private-key /run/sink.key peer "$(wg pubkey </run/router.key)" \
		allowed-ips 198.18.0.0/24 endpoint 198.19.0.1:51820
	ip -n sink link set w1 up
	sink w1
	$IN_ROUTER ip link set w0 up
	$IN_ROUTER ip route add 198.19.1.0/24 dev w0
}

load() {
	sent tester c0 "$S1_MAC" settled s1 to=198.19.1.2
	sent whole g0 "$R0_MAC" settled w1 to=198.19.1.2
}
