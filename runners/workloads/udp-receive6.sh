# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: UDP received, IPv6
# unit: datagram
# knobs: receiver

prepare() { lay_out_receiver; }

load() { received 6 "$RECEIVER_MAC" 2001:db8:0:1::1 2001:db8:0:1::1 1024; }
