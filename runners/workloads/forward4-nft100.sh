# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, past 100 rules of nftables
# quick: yes
# knobs: router

prepare() {
	lay_out
	{
		echo 'table ip workload { chain rules { type filter hook forward priority 0;'
		seq 100 | awk '{ printf "ip saddr 192.0.2.%d udp sport %d drop\n", $1 % 254 + 1, $1 }'
		echo '}; }'
	} | $IN_ROUTER nft -f - || lacking "it has no nftables (CONFIG_NF_TABLES)"
}

load() { sent_family 4; }
