# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: TCP sent and received, IPv4, cut by GSO and merged by GRO
# unit: call of 14 480 bytes
# quick: yes

prepare() {
	lay_out_hosts
	merge_and_cut
}

load() { exchanged tcp near far 198.18.0.2 14480; }
