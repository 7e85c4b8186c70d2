# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4
# quick: yes
# knobs: router

prepare() { lay_out; }

load() { sent_family 4; }
