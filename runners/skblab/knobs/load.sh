# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Load that has nothing to do with packets, by stress-ng. Its process and its load are in a file.

NOTE=/run/skblab-load

# A dead one that nobody has waited for has no command line any more.
runs() { # pid
	[ "$(cat "/proc/$1/comm" 2>/dev/null)" = stress-ng ] && grep -q . "/proc/$1/cmdline"
}

show() {
	if [ -e "$NOTE" ] && read -r pid percent <"$NOTE" && runs "$pid"; then
		echo "load $percent"
	elif command -v stress-ng >/dev/null; then
		echo 'load 0'
	else
		echo 'skblab-unable: stress-ng is not installed'
	fi
	echo "online $(cat /sys/devices/system/cpu/online)"
}

# Until it does, or does not: it takes a moment to begin, and its parts to end.
await() { # yes|no pid
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		if runs "$2"; then now=yes; else now=no; fi
		[ "$now" != "$1" ] || return 0
		sleep 0.25
	done
	echo "stress-ng does not $([ "$1" = yes ] && echo begin || echo end)" >&2
	return 1
}

stop() {
	[ -e "$NOTE" ] || return 0
	read -r pid _ <"$NOTE"
	if runs "$pid"; then
		kill "$pid"
		await no "$pid"
	fi
	rm "$NOTE"
}

start() { # percent count [cpus]
	setsid stress-ng --cpu "$2" --cpu-load "$1" ${3:+--taskset "$3"} --timeout 0 \
		</dev/null >/dev/null 2>&1 &
	echo "$! $1${3:+@$3}" >"$NOTE"
	await yes "$!"
}
