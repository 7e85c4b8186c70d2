# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, past an XDP program that lets all pass

prepare() {
	lay_out
	xdp xdp-pass
}

load() { sent_family 4; }
