# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Commands of the user's own. Each has a shell of its own, without input.

# Runs a command, and has what it prints in a file; how it ended is in $status, the last line of what
# it complains of in $why. No pipe: what a command leaves behind would keep it open.
try() { # command file
	complaint=$(mktemp)
	status=0
	sh -c "$1" >"$2" 2>"$complaint" </dev/null || status=$?
	why=$(grep -v '^[[:space:]]*$' "$complaint" | tail -n 1)
	rm "$complaint"
}

# Prints for one port, or for none: how it ended and its complaint, or what was printed, line by line.
ask() { # port command
	printed=$(mktemp)
	try "$2" "$printed"
	if [ "$status" != 0 ]; then
		printf '%s failed exit %s: %s\n' "$1" "$status" "${why:-it said nothing}"
	elif [ -s "$printed" ]; then
		awk -v port="$1" '{ print port, "said", $0 }' "$printed"
	else
		printf '%s said\n' "$1"
	fi
	rm "$printed"
}

run() { # which command
	try "$2" /dev/null
	[ "$status" = 0 ] || {
		echo "$1 failed, exit $status: ${why:-it said nothing}" >&2
		exit 1
	}
}
