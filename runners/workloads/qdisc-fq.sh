# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, queued by fq

prepare() {
	lay_out
	$IN_ROUTER tc qdisc replace dev r1 root fq || lacking "it has no fq (CONFIG_NET_SCH_FQ)"
}

load() { sent_family 4; }
