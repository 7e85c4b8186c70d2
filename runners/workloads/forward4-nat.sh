# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, source NAT
# knobs: router

prepare() {
	lay_out
	$IN_ROUTER nft 'table ip workload { chain nat { type nat hook postrouting priority 100;
		oifname "r1" masquerade; }; }' || lacking "it has no NAT by nftables (CONFIG_NFT_MASQ)"
}

load() { sent_family 4; }
