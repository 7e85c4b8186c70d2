# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, by a flow table
# knobs: router

prepare() {
	lay_out
	$IN_ROUTER nft 'table ip workload {
		flowtable fast { hook ingress priority 0; devices = { r0, r1 }; }
		chain rules { type filter hook forward priority 0; meta l4proto udp flow add @fast; }; }' ||
		lacking "it has no flow tables (CONFIG_NF_FLOW_TABLE)"
}

load() { sent_family 4; }
