# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # variables without a value here are set by the caller.
# Throughput of forwarding with stamps off and on, in turn. It goes on from bench.sh. Prints a line a
# pair: family pair first microseconds-off microseconds-on packets

once() { # value
	sysctl -q -w "net.core.path_trace=$1"
	[ "$(sysctl -n net.core.path_trace)" = "$1" ]
	before=$(came s0)
	elapsed=$(timed "$family" g0 "$R0_MAC" "$packets")
	[ $(($(came s0) - before)) = "$packets" ]
	echo "$elapsed"
}

for family in 4 6; do
	once 0 >/dev/null
	once 1 >/dev/null
	pair=1
	while [ "$pair" -le "$pairs" ]; do
		if [ $((pair % 2)) = 1 ]; then
			off=$(once 0) on=$(once 1)
			echo "$family $pair off $off $on $packets"
		else
			on=$(once 1) off=$(once 0)
			echo "$family $pair on $off $on $packets"
		fi
		pair=$((pair + 1))
	done
done
