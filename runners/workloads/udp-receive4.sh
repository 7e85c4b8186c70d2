# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: UDP received, IPv4
# unit: datagram
# quick: yes
# knobs: receiver

prepare() { lay_out_receiver; }

load() { received 4 "$RECEIVER_MAC" 198.18.0.1 198.18.0.1 1024; }
