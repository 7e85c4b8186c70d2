# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The sink of a tester that is this machine itself: its ports are in the namespace that this runs in.
# It goes on from net.sh.

# Packets that came to the sink so far.
came() { # device
	while read -r name _ packets _; do
		[ "$name" != "$1:" ] || { echo "$packets"; return; }
	done </proc/net/dev
	echo "no device $1 (any more)" >&2
	return 1
}
