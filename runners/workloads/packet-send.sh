# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: sent by a packet socket
# unit: frame

prepare() { lay_out_sender; }

load() { exchanged packet sender d0 60; }
