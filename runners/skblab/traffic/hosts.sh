# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Hosts as namespaces of one machine, each with one port, joined by a bridge in a namespace of its own.
# Nobody has to ask where a host is, and nothing but packets of ours is on the links. It goes on from
# net.sh. No host has capitals in its name.

# The n-th host has these addresses: of its port, and of both families in one network.
mac() { # n
	printf '02:00:00:00:01:%02x' "$1"
}

be_hosts() { # name...
	quiet BRIDGE "$@"
	ip -n BRIDGE link add bridge type bridge mcast_snooping 0 ageing_time 0
	ip -n BRIDGE link set bridge up
	number=0
	for host; do
		number=$((number + 1))
		pair "port$number" BRIDGE "$(printf '02:00:00:00:02:%02x' $number)" eth0 "$host" "$(mac $number)"
		ip -n BRIDGE link set "port$number" master bridge
		ip -n "$host" link set lo up
		speak "$IN/$host" eth0
	done
	number=0
	for host; do
		number=$((number + 1)) other=0
		for _; do
			other=$((other + 1))
			[ "$other" != "$number" ] || continue
			give_address "$IN/$host" eth0 "198.18.0.$number/24" "198.18.0.$other" "$(mac $other)"
			give_address "$IN/$host" eth0 "2001:db8::$(printf %x $number)/64" \
				"2001:db8::$(printf %x $other)" "$(mac $other)"
		done
	done
}
