# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2086  # IN is words
# title: UDP sent, IPv4, cut by GSO
# unit: call of 10 datagrams

prepare() {
	lay_out_sender
	$IN/sender ethtool -K d0 tx-udp-segmentation off
}

load() { segment=1200 exchanged send sender 198.18.0.1 12000; }
