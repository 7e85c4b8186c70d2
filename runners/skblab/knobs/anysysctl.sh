# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Any sysctl. One of a network namespace is set in the router's. One of the whole machine is not
# there, or cannot be written: it is set in the namespace of the machine's first process.

# Runs a script on a file, in the namespace that has it.
reach() { # file script [word]
	if [ -w "$1" ]; then
		sh -c "$2" sh "$1" "${3-}"
	else
		nsenter -t 1 -n sh -c "$2" sh "$1" "${3-}"
	fi
}

# Prints PORT=VALUE in a line. What cannot be put back later is not offered now.
show() { # port file
	# shellcheck disable=SC2016
	if value=$(reach "$2" 'cat "$1" && { [ -w "$1" ] || ! echo "$1: it is read-only"; }' 2>&1); then
		printf '%s=%s\n' "$1" "$(printf '%s' "$value" | tr '\t\n' '  ')"
	else
		echo "skblab-unable: $(echo "${value#cat: }" | tail -n 1)"
	fi
}

put() { # file value
	# shellcheck disable=SC2016
	reach "$1" 'printf "%s\n" "$2" 2>/dev/null >"$1" || { echo "the kernel refuses \"$2\""; exit 1; }' \
		"$2" >&2
}
