# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The kernel's own counters as counters.py reads them: sections, each under a line `== name`.

count() { # namespace|"" device...
	echo '== interrupts'
	cat /proc/interrupts
	echo '== softirqs'
	cat /proc/softirqs
	echo '== softnet'
	cat /proc/net/softnet_stat
	echo '== threads'
	for pid in $(pgrep '^(napi/|ksoftirqd/|irq/)'); do
		# One that has ended meanwhile has no file any more.
		{ read -r name <"/proc/$pid/comm" && read -r ran _ <"/proc/$pid/schedstat"; } 2>/dev/null ||
			continue
		echo "$name $ran"
	done
	netns=$1
	shift
	for device; do
		echo "== device $device"
		# shellcheck disable=SC2016  # the inner shell expands
		${netns:+ip netns exec "$netns"} sh -c '
			cd "/sys/class/net/$1/statistics" && for one in *; do echo "$one $(cat "$one")"; done
		' sh "$device"
		echo "== driver $device"
		# A driver need not have any.
		${netns:+ip netns exec "$netns"} ethtool -S "$device" 2>/dev/null |
			sed -n 's/^ *\([^:]*\): *\([0-9]*\)$/\1 \2/p'
	done
}
