# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Runs the traffic program as lines of standard input ask, in the networks that this shell is in: over
# loopback, and over a veth pair between two namespaces. testbeds/net.sh stands before it.
#   alone WORDS...                          the program, by itself
#   pair PLACE PORT FIRST... / SECOND...    the program that waits for packets, and the one that sends;
#                                           PLACE is loopback or veth
# Of each it prints the programs' documents, a line each, what they said on standard error behind `said `,
# and `end`. ADDRESS in the words is where the first listens.

# One of both has no namespace to be entered.
lay_out() {
	quiet near far &&
		pair near0 near 02:00:00:00:00:01 far0 far 02:00:00:00:00:02 &&
		give_address "$IN/near" near0 198.18.0.1/30 198.18.0.2 02:00:00:00:00:02 &&
		give_address "$IN/far" far0 198.18.0.2/30 198.18.0.1 02:00:00:00:00:01
}

# The shell tells what a word is: none of them has a blank.
put() { # word...
	for word; do
		case $word in ADDRESS) word=$address ;; esac
		words="$words $word"
	done
}

both() { # place port first... / second...
	near='' far='' address=127.0.0.1:$2
	if [ "$1" = veth ]; then
		near="$IN/near" far="$IN/far" address=198.18.0.2:$2
	fi
	shift 2
	words='' first='' role=$1
	for word; do
		shift
		[ "$word" != / ] || break
		put "$word"
	done
	first=$words words=''
	put "$@"
	: >"$work/ready"
	# shellcheck disable=SC2086  # words
	$far "$program" $first >"$work/first" 2>"$work/ready" &
	waits=$!
	until grep -q '^ready$' "$work/ready" || ! kill -0 "$waits" 2>/dev/null; do sleep 0.01; done
	: >"$work/said"
	if grep -q '^ready$' "$work/ready"; then
		failed=0
		# shellcheck disable=SC2086  # words
		$near "$program" $words 2>"$work/said" || failed=$?
		# An echo has no end of its own, and to a receiver nothing comes of a sender that failed.
		if [ "$role" = echo ] || [ "$failed" -gt 1 ]; then
			kill "$waits" 2>/dev/null || :
		fi
	fi
	wait "$waits" || :
	cat "$work/first"
	sed 's/^/said /' "$work/said"
	grep -v '^ready$' "$work/ready" | sed 's/^/said /'
}

serve() { # program, whether to lay out networks
	program=$1 work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	if [ "$2" = no ]; then
		echo 'only loopback: a veth pair needs root rights'
	elif ! ip link set lo up 2>"$work/said"; then
		echo "nothing: $(head -n 1 "$work/said")"
		return
	elif lay_out 2>"$work/said"; then
		echo 'both'
	else
		echo "only loopback: $(head -n 1 "$work/said")"
	fi
	while read -r line; do
		# shellcheck disable=SC2086  # words
		set -- $line
		what=$1
		shift
		case $what in
		alone)
			"$program" "$@" 2>"$work/said" || :
			sed 's/^/said /' "$work/said"
			;;
		pair) both "$@" ;;
		esac
		echo 'end'
	done
}
