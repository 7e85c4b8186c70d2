# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: sent on by XDP

# What XDP sends, a veth takes only with a NAPI of its own; so does the tester's sink, then.
prepare() {
	lay_out
	xdp xdp-redirect
	for device in s0 s1; do ip netns exec sink ethtool -K "$device" gro on; done
	ip netns exec generator ethtool -K c0 tso off
	xdp_to r1
}

load() { sent_family 4; }
