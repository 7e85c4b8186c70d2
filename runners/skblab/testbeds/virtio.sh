# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A router in a guest of its own, and generator and sink in another; their devices are told apart by
# their addresses, and joined outside:
#
#   generator:g0 ─ r0  r1 ─ sink:s0     through the router
#   generator:c0 ───────── sink:s1      the tester alone
#
# It goes on from net.sh, generator.sh, tester.sh and router.sh.

export IN_ROUTER=''

# The key that Microsoft publishes with RSS, and many drivers have. A kernel makes one up at each
# boot, and so each boot would spread the same flows over queues in a way of its own.
RSS_KEY=6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0:d0:ca:2b:cb
RSS_KEY=$RSS_KEY:ae:7b:30:b4:77:cb:2d:a3:80:30:f2:0c:6a:42:b7:3b:be:ac:01:fa

# Has the device with an address this name, in that namespace if one is given.
adopt() { # mac name [namespace]
	for device in /sys/class/net/*; do
		[ "$(cat "$device/address")" = "$1" ] || continue
		ip link set "${device##*/}" name "$2"
		[ -z "${3:-}" ] || ip link set "$2" netns "$3"
		${3:+ip netns exec "$3"} ip link set "$2" up
		return 0
	done
	echo "no network device has the address $1" >&2
	return 1
}

be_tester() {
	quiet generator sink
	see sink
	adopt 02:00:00:00:00:01 g0 generator
	adopt 02:00:00:00:00:04 s0 sink
	adopt 02:00:00:00:00:05 c0 generator
	adopt 02:00:00:00:00:06 s1 sink
	sink s0
	sink s1
}

be_guest_router() {
	# shellcheck disable=SC2086  # words
	$SILENT
	adopt 02:00:00:00:00:02 r0
	adopt 02:00:00:00:00:03 r1
	# Before Linux 5.18 virtio_net has no RSS.
	if ethtool -x r0 >/dev/null 2>&1; then
		ethtool -X r0 hkey "$RSS_KEY"
		ethtool -X r1 hkey "$RSS_KEY"
	fi
	be_router
}
