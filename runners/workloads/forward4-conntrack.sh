# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, connections tracked
# knobs: router

prepare() {
	lay_out
	$IN_ROUTER nft 'table ip workload { chain rules { type filter hook forward priority 0;
		ct state established,related accept; ct state new accept; }; }' ||
		lacking "it cannot track connections by nftables (CONFIG_NFT_CT)"
}

load() { sent_family 4; }
