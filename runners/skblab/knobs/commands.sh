# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Commands of the user's own. Each has a shell of its own, without input.

# What a command prints. No pipe: what it leaves behind would keep that open.
out=$(mktemp -d)/said
trap 'rm -r "${out%/said}"' EXIT

# Runs a command; how it ended is in $status, and what it complained of last in $why.
try() { # command port value
	status=0
	skblab_port=$2 skblab_value=$3 sh -c "$1" >"$out" 2>"$out.2" </dev/null || status=$?
	[ "$status" = 0 ] || why=$(awk 'NF { last = $0 } END { print last }' "$out.2")
}

# Prints for one port, or for none: how it ended and its complaint, or what was printed, line by line.
ask() { # port command
	try "$2" "$1" ""
	if [ "$status" != 0 ]; then
		printf '%s failed exit %s: %s\n' "$1" "$status" "${why:-it said nothing}"
	else
		printf '%s said\n' "$1"
		while read -r line || [ -n "$line" ]; do
			printf '%s said %s\n' "$1" "$line"
		done <"$out"
	fi
}

run() { # which command port value
	try "$2" "$3" "$4"
	[ "$status" = 0 ] || {
		echo "$1 failed, exit $status: ${why:-it said nothing}" >&2
		exit 1
	}
}
