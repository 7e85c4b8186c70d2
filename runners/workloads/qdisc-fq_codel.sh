# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, queued by fq_codel

prepare() {
	lay_out
	$IN_ROUTER tc qdisc replace dev r1 root fq_codel || lacking "it has no fq_codel (CONFIG_NET_SCH_FQ_CODEL)"
}

load() { sent_family 4; }
