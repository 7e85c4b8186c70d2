# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: UDP sent and received, IPv4, cut by GSO and merged by GRO
# unit: call of 10 datagrams

prepare() {
	lay_out_hosts
	merge_and_cut
}

load() { segment=1200 exchanged udp near far 198.18.0.2 12000; }
