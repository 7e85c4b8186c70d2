# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: TCP sent and received, IPv6, cut by GSO and merged by GRO
# unit: call of 14 280 bytes

prepare() {
	lay_out_hosts
	merge_and_cut
}

load() { exchanged tcp near far 2001:db8:0:1::2 14280; }
