# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # `packets`, `repeats` and `frame` are set by the caller.
# The forwarding experiment in `exact` mode, where the guest's clock counts instructions. One CPU,
# never idle between pktgen's first and last packet, so pktgen's elapsed time is instructions / 1000.
# It goes on from netns.sh. Prints a line a trial: setting repeat packets elapsed_us delivered
set -eu

trial() { # setting repeat device destination-mac sink-device
	before=$(came "$5")
	told=$(generate device="$3" mac="$4" size="$frame" count="$packets")
	echo "$1 $2 ${told%% *} ${told##* } $(($(came "$5") - before))"
}

rp_filter() { # value; read back, or the trial is void
	for name in all default r0 r1; do
		$IN_ROUTER sysctl -q -w "net.ipv4.conf.$name.rp_filter=$1"
		[ "$($IN_ROUTER sysctl -n "net.ipv4.conf.$name.rp_filter")" = "$1" ]
	done
}

lay_out_plain

# One round outside the counts fills the caches of memory, routes and neighbours.
packets_asked=$packets
packets=2000
rp_filter 1
trial warm-up 0 c0 "$S1_MAC" s1 >/dev/null
trial warm-up 0 g0 "$R0_MAC" s0 >/dev/null
packets=$packets_asked

repeat=1
while [ "$repeat" -le "$repeats" ]; do
	trial tester "$repeat" c0 "$S1_MAC" s1
	# Every other round runs backwards, so that a drift would not look like a difference.
	if [ $((repeat % 2)) = 1 ]; then order='0 1'; else order='1 0'; fi
	for value in $order; do
		rp_filter "$value"
		trial "rp_filter=$value" "$repeat" g0 "$R0_MAC" s0
	done
	repeat=$((repeat + 1))
done
