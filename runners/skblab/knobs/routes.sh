# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # routes.py puts FAMILY, PROTOCOL, VLANS and HOPS before.
# Routes of ours in the main table. Which they are is the comment of a table of nftables without any
# chain, which no packet meets: it is there as long as they are.

MARK="skblab_routes$FAMILY"

# All routes but those of VLANs and of next hops of ours. The kernel counts them: to list a million takes seconds.
total() {
	others=$(($(ip "-$FAMILY" route show proto "$VLANS" | wc -l) + $(by_hops)))
	if [ "$FAMILY" = 4 ]; then
		all=$(awk '/^[A-Z]/ { main = /^Main:/ }
			main && /Prefixes:/ { print $2 }' /proc/self/net/fib_triestat)
	else
		all=$((0x$(cut -d ' ' -f 4 /proc/self/net/rt6_stats)))
		# Each device that comes has some there.
		others=$((others + $(ip -6 route show table local | wc -l)))
	fi
	echo $((${all:-0} - others))
}

# Of IPv6 each next hop is an entry.
by_hops() {
	ip -o "-$FAMILY" route show proto "$HOPS" |
		if [ "$FAMILY" = 4 ]; then cat; else grep -o nexthop; fi | wc -l
}

# Lines: the mark, how many routes there are, and without ours what the others are.
show() { # device…
	if ! command -v nft >/dev/null; then
		echo 'skblab-unable: nftables is not installed'
		return
	fi
	nft -j list table inet "$MARK" 2>/dev/null || echo '{}'
	echo "total $(total)"
	echo "devices $*"
	if nft list table inet "$MARK" >/dev/null 2>&1; then
		echo '[]'
	else
		ip -j "-$FAMILY" route show
	fi
}

clear() {
	ip "-$FAMILY" route flush proto "$PROTOCOL"
	nft delete table inet "$MARK" 2>/dev/null || :
}

mark() { # value
	echo "table inet $MARK { comment \"$1\"; }" | nft -f -
}
