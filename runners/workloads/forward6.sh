# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv6
# quick: yes
# knobs: router

prepare() { lay_out; }

load() { sent_family 6; }
