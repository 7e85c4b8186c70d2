# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: dropped by XDP, with what sends the packets

prepare() {
	lay_out
	xdp xdp-drop
}

load() { sent whole g0 "$R0_MAC" xdp_dropped r0; }
