# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: TCP, a byte there and a byte back, IPv4
# unit: request

prepare() { lay_out_hosts; }

load() { exchanged request near far 198.18.0.2 1; }
