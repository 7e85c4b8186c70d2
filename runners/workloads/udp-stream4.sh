# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: UDP sent and received, IPv4, one datagram a call
# unit: datagram

prepare() { lay_out_hosts; }

load() { exchanged udp near far 198.18.0.2 1200; }
