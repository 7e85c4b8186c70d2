# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: one veth pair, to where a filter drops

prepare() { lay_out; }

load() { sent whole c0 "$S1_MAC" settled s1; }
