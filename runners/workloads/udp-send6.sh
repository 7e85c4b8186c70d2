# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: UDP sent, IPv6
# unit: datagram

prepare() { lay_out_sender; }

load() { exchanged send sender 2001:db8:0:1::1 64; }
