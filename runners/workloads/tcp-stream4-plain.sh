# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: TCP sent and received, IPv4, one segment a call, no GRO
# unit: call of 1 448 bytes

prepare() { lay_out_hosts; }

load() { exchanged tcp near far 198.18.0.2 1448; }
