# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The generator and the sink, in namespaces of these names of one kernel: g0 and s0 are behind the
# device under test, c0 and s1 are joined without one. The sink drops at tc ingress: it answers
# nothing, and it counts. It goes on from generator.sh.

# What is sent, in words of `generate`: destinations, tag, xmit and step.
export DESTINATIONS=fixed TAG='' XMIT=start_xmit THEN=''

# Addresses of the ports that packets go to: the router's first, and that of the tester's loop.
R0_MAC=02:00:00:00:00:02 S1_MAC=02:00:00:00:00:06

# Nothing but the generator may send: no router solicitation, no detection of duplicate addresses.
SILENT='sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
	net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.accept_dad=0
	net.ipv6.conf.default.addr_gen_mode=1'

quiet() { # namespace
	ip netns add "$1"
	# shellcheck disable=SC2086  # words
	ip netns exec "$1" $SILENT
}

sink() { # device
	tc -n sink qdisc add dev "$1" clsact
	tc -n sink filter add dev "$1" ingress matchall action drop
}

# What follows runs in every trial, on CPUs that are slow: few processes, and none that `ip netns exec`
# mounts a file system for.

# Packets that came to the sink so far.
came() { # device
	nsenter --net=/run/netns/sink cat /proc/net/dev | while read -r name _ packets _; do
		[ "$name" != "$1:" ] || echo "$packets"
	done
}

# Once nothing more comes: a packet that is still under way is not lost. A guest that its host has no
# time for stands still for longer than one look. Where `all` have come, nothing is under way.
# shellcheck disable=SC2016  # the inner shell expands
settled() { # device of the sink [all]
	nsenter --net=/run/netns/sink sh -euc '
		came() {
			while read -r name _ packets _; do
				[ "$name" != "$1:" ] || now=$packets
			done </proc/net/dev
		}
		came "$1"
		same=0
		while [ "$same" -lt 3 ] && [ "$now" != "$2" ]; do
			sleep 0.05
			last=$now
			came "$1"
			if [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; fi
		done
		echo "$now"
	' sh "$1" "${2:-}"
}

# With one CPU, a thread of the router's, such as of NAPI, gets it as soon as it has work: the ring
# between has room for 256 packets, and the generator would send more in its turn, all of them lost.
give_way() { # cpu
	read -r online </sys/devices/system/cpu/online
	[ "$online" = 0 ] && [ ! -e /run/skblab-gives-way ] || return 0
	: >/run/skblab-gives-way
	for thread in $(pgrep -x "kpktgend_$1"); do chrt --idle --pid 0 "$thread"; done
}

# Prints what came of it: sent, refused, elapsed microseconds, what came to the sink, and what it has
# counted in all.
send() { # whole|tester family bytes|mix flows count gap limit cpu
	if [ "$1" = whole ]; then
		set -- g0 "$R0_MAC" s0 "$@"
	else
		set -- c0 "$S1_MAC" s1 "$@"
		TAG=
	fi
	device=$1 mac=$2 far=$3
	shift 4
	give_way "$7"
	before=$(came "$far")
	told=$(generate "device=$device" "mac=$mac" "family=$1" "size=$2" "flows=$3" "count=$4" \
		"gap=$5" "limit=$6" "cpu=$7" "destinations=$DESTINATIONS" "tag=$TAG" "xmit=$XMIT" "step=$THEN")
	after=$(settled "$far" $((before + ${told%% *})))
	echo "$told $((after - before)) $after"
}
