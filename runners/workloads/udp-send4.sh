# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: UDP sent, IPv4
# unit: datagram
# quick: yes

prepare() { lay_out_sender; }

load() { exchanged send sender 198.18.0.1 64; }
