# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: received by a packet socket
# unit: frame

prepare() { lay_out_receiver; }

# Frames for another host, which nobody else here takes.
load() { received 4 "$NOBODYS_MAC" 198.18.0.1 packet v0; }
