# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The kernel's own counters as counters.py reads them: sections, each under a line `== name`. Few
# processes: they run on CPUs that are slow, around every trial.

count() { # namespace|"" device...
	awk 'FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/_stat$/, "", name); print "== " name }
		{ print }' /proc/interrupts /proc/softirqs /proc/net/softnet_stat
	netns=$1
	shift
	echo '== threads'
	# Of NAPI those of these devices.
	devices=$(IFS='|' && echo "$*")
	# shellcheck disable=SC2013  # no such path has a space
	for comm in $(grep -lE "^(napi/($devices)-|ksoftirqd/|irq/)" /proc/[0-9]*/comm 2>/dev/null); do
		# One that has ended meanwhile has no file any more.
		{ read -r name <"$comm" && read -r ran _ <"${comm%comm}schedstat"; } 2>/dev/null || continue
		echo "$name $ran"
	done
	# Of each device the interrupts of its PCI function, which of virtio is the parent of its own: a
	# handler may be named after anything. And a driver need not have counters of its own.
	# shellcheck disable=SC2016  # the inner shell expands
	${netns:+ip netns exec "$netns"} sh -ec '
		echo "== owners"
		for device; do
			function=$(cd -P "/sys/class/net/$device/device" 2>/dev/null && pwd -P) || function=
			case ${function##*/} in virtio*) function=${function%/*} ;; esac
			for irq in "$function"/msi_irqs/*; do
				[ ! -e "$irq" ] || echo "$device: ${irq##*/}"
			done
			[ -d "$function/msi_irqs" ] || [ ! -e "$function/irq" ] || {
				read -r irq <"$function/irq" && echo "$device: $irq"
			}
		done
		for device; do
			echo "== device $device"
			for file in "/sys/class/net/$device/statistics/"*; do
				read -r value <"$file" && echo "${file##*/}: $value"
			done
			echo "== driver $device"
			ethtool -S "$device" 2>/dev/null || :
		done
	' sh "$@" | sed -n 's/^== .*/&/p; s/^ *\([^:]*\): *\([0-9][0-9]*\)$/\1 \2/p'
}
