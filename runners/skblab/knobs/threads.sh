# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Kernel threads and their scheduling: policy by its number, real-time priority, nice value.

# The threads whose names begin so, a pid each.
named() { # begin
	for file in /proc/[0-9]*/comm; do
		# One may end meanwhile.
		{ read -r comm <"$file"; } 2>/dev/null || continue
		case $comm in
		"$1"*)
			pid=${file#/proc/}
			echo "${pid%/comm}"
			;;
		esac
	done
}

# Of each: its name without blanks, policy, priority, nice value.
tell() { # begin
	for pid in $(named "$1"); do
		# Behind the name, which may hold anything, the state is field 3.
		# shellcheck disable=SC2046 # fields are words
		set -- $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null)
		[ $# -ge 39 ] || continue
		echo "thread $(tr ' ' _ <"/proc/$pid/comm") ${39} ${38} ${17}"
	done
}

softirqs() {
	tell ksoftirqd/
}

# Threads of a device's interrupts; `show` is of irq.sh.
of_device() { # device
	had=
	for irq in $(show "$1" | sed -n 's/^irq \([0-9]*\) .*/\1/p'); do
		found=$(tell "irq/$irq-")
		[ ! "$found" ] || { echo "$found"; had=yes; }
	done
	[ "$had" ] || echo "skblab-unable: the interrupts of $1 have no threads (PREEMPT_RT, or threadirqs)"
}

# A thread that has ended meanwhile is left out: whoever reads again sees that.
schedule() { # name policy number
	for pid in $(named "${1%%/*}/"); do
		[ "$(tr ' ' _ <"/proc/$pid/comm" 2>/dev/null)" = "$1" ] || continue
		case $2 in
		fifo | rr) chrt "--$2" -p "$3" "$pid" ;;
		*) chrt "--$2" -p 0 "$pid" && renice -n "$3" -p "$pid" >/dev/null ;;
		esac || return 1
	done
}
