# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A generator, a router and a sink in namespaces of one kernel, joined by veth pairs:
#
#   generator:g0 ─ router:r0  router:r1 ─ sink:s0     through the router
#   generator:c0 ─────────────────────── sink:s1      the tester alone
#
# The sink drops at tc ingress: it answers nothing, and it counts. The router's devices have NAPI, as
# network cards do, which veth has with GRO only.

# What is sent, for `generate`: to one destination or random ones; the VLAN, if any; and pktgen's
# xmit_mode: only queue_xmit passes what is attached to the device.
export DESTINATIONS=fixed TAG= XMIT=start_xmit

pair() { # name namespace mac  peer namespace mac
	ip link add "$1" netns "$2" address "$3" type veth peer name "$4" netns "$5" address "$6"
	ip -n "$2" link set "$1" up
	ip -n "$5" link set "$4" up
}

# Nothing but the generator may send: no router solicitation, no detection of duplicate addresses.
quiet() { # namespace
	ip netns add "$1"
	ip netns exec "$1" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.default.accept_ra=0 \
		net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.addr_gen_mode=1
}

sink() { # device
	tc -n sink qdisc add dev "$1" clsact
	tc -n sink filter add dev "$1" ingress matchall action drop
}

lay_out() {
	for name in generator router sink; do quiet "$name"; done
	pair g0 generator 02:00:00:00:00:01 r0 router 02:00:00:00:00:02
	pair r1 router 02:00:00:00:00:03 s0 sink 02:00:00:00:00:04
	pair c0 generator 02:00:00:00:00:05 s1 sink 02:00:00:00:00:06
	for device in r0 r1; do
		ip netns exec router sysctl -q -w "net.ipv6.conf.$device.disable_ipv6=0"
		ip netns exec router ethtool -K "$device" gro on
	done
	# veth hands packets to the NAPI at the far end only if the sender has no TSO: those of one that
	# has need no GRO (veth_skb_is_eligible_for_gro).
	ip netns exec generator ethtool -K g0 tso off
	# What GRO has merged in the router leaves it as frames, as on a wire: the sink counts each.
	ip netns exec router ethtool -K r1 tx-udp-segmentation off tx-gso-list off
	ip -n router address add 198.18.0.1/24 dev r0
	ip -n router address add 198.19.0.1/24 dev r1
	ip -n router address add 2001:db8:0:1::1/64 dev r0 nodad
	ip -n router address add 2001:db8:0:2::1/64 dev r1 nodad
	# Both ways: what a router sends back, such as an error, must not wait for an answer.
	ip -n router neighbour replace 198.18.0.2 lladdr 02:00:00:00:00:01 nud permanent dev r0
	ip -n router neighbour replace 198.19.0.2 lladdr 02:00:00:00:00:04 nud permanent dev r1
	ip -n router neighbour replace 2001:db8:0:1::2 lladdr 02:00:00:00:00:01 nud permanent dev r0
	ip -n router neighbour replace 2001:db8:0:2::2 lladdr 02:00:00:00:00:04 nud permanent dev r1
	ip netns exec router sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	sink s0
	sink s1
}

# Where no route of the router's own leads: random destinations need one.
lead_all_to_the_sink() {
	ip -n router route add default via 198.19.0.2 dev r1
	ip -n router route add default via 2001:db8:0:2::2 dev r1
}

# The ID of the VLAN that the router is in, or nothing: the tester has none.
tag() {
	ip -n router -d link show skbvlan0 2>/dev/null | sed -n 's/.*802.1Q id \([0-9]*\) .*/\1/p'
}

# Packets that the sink's filter dropped so far.
dropped() { # device
	tc -n sink -s -j filter show dev "$1" ingress |
		sed -n 's/.*"stats":{"bytes":[0-9]*,"packets":\([0-9]*\),.*/\1/p' | head -n 1
}

# Packets that the router gave to the link so far, also those that the far end had no room for.
handed_over() { # device of the router
	# shellcheck disable=SC2016  # the inner shell expands
	ip netns exec router sh -euc '
		cd "/sys/class/net/$1/statistics"
		echo $(($(cat tx_packets) + $(cat tx_dropped)))
	' sh "$1"
}

# Once nothing more comes: a packet that is still under way is not lost.
settled() { # device of the sink
	last='' now=$(dropped "$1")
	while [ "$now" != "$last" ]; do
		sleep 0.05
		last=$now
		now=$(dropped "$1")
	done
	echo "$now"
}

# With one CPU, a thread of the router's, such as of NAPI, gets it as soon as it has work: the ring
# between has room for 256 packets, and the generator would send more in its turn, all of them lost.
give_way() { # cpu
	[ "$(nproc --all)" = 1 ] || return 0
	for thread in $(pgrep -x "kpktgend_$1"); do chrt --idle --pid 0 "$thread"; done
}

# Sends `count` packets, `gap` nanoseconds from one to the next, or 0: at once; for at most `limit`
# seconds, or 0: until all are sent. pktgen's own thread of CPU `cpu` does it. Ports go round: one
# flow each. With DESTINATIONS=random each packet has a destination of its own, in the widest range
# without a special network in it, where routes of routeset.py are, too. With TAG in a VLAN, the frame 4 bytes longer. Prints packets
# sent, those that the device refused, and elapsed microseconds.
# shellcheck disable=SC2016  # the inner shell expands
generate() { # device destination-mac family bytes flows count gap limit cpu
	ip netns exec generator sh -euc '
		thread=/proc/net/pktgen/kpktgend_$9
		device=/proc/net/pktgen/$1
		start="echo start >/proc/net/pktgen/pgctrl"
		# A signal to who waits for it stops the generator.
		[ "$8" = 0 ] || start="timeout $8 sh -c \"$start\" || [ \$? = 124 ]"
		for one in /proc/net/pktgen/kpktgend_*; do echo rem_device_all >"$one"; done
		echo "add_device $1" >"$thread"
		if [ "$3 $DESTINATIONS" = "4 random" ]; then
			set -- "$@" "dst_min 11.0.0.0" "dst_max 99.255.255.255" "flag IPDST_RND"
		elif [ "$DESTINATIONS" = random ]; then
			set -- "$@" "dst6_min 2400::" "dst6_max 240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
		elif [ "$3" = 4 ]; then
			set -- "$@" "dst 198.19.0.2"
		else
			set -- "$@" "dst6 2001:db8:0:2::2"
		fi
		if [ "$3" = 4 ]; then
			set -- "$@" "src_min 198.18.0.2" "src_max 198.18.0.2"
		else
			set -- "$@" "src6 2001:db8:0:1::2"
		fi
		# Packets that the generator keeps no part of, as those of a network card.
		set -- "$@" "flag UDPCSUM" "flag !SHARED" "clone_skb 0" "dst_mac $2" \
			"pkt_size $(($4 + ${TAG:+4 +} 0))" "count $6" "delay $7" \
			"udp_src_min 1024" "udp_src_max $((1024 + $5))" \
			"udp_dst_min 1024" "udp_dst_max 1024" "xmit_mode $XMIT"
		[ -z "$TAG" ] || set -- "$@" "vlan_id $TAG"
		shift 9
		for setting; do echo "$setting" >"$device"; done
		eval "$start"
		# One that was stopped ends on its own time.
		left=100
		until grep -q "^Result: OK: [0-9]*(" "$device" || [ "$left" = 0 ]; do
			sleep 0.05
			left=$((left - 1))
		done
		sed -n "s/.*pkts-sofar: \([0-9]*\)  errors: \([0-9]*\).*/\1 \2/p
			s/^Result: OK: \([0-9]*\)(.*/\1/p" "$device"
	' sh "$@" | tr '\n' ' '
}

# Prints what came of it: sent, refused, elapsed microseconds, what the router handed over, what
# came to the sink. Without a router that is what was sent.
offer() { # whole|tester family bytes flows count gap limit cpu
	if [ "$1" = whole ]; then
		set -- g0 02:00:00:00:00:02 s0 "$@"
	else
		set -- c0 02:00:00:00:00:06 s1 "$@"
	fi
	device=$1 mac=$2 far=$3 part=$4
	shift 4
	TAG=
	[ "$part" = tester ] || TAG=$(tag)
	give_way "$7"
	before=$(dropped "$far") forwarded=$(handed_over r1)
	told=$(generate "$device" "$mac" "$@")
	after=$(settled "$far")
	if [ "$part" = whole ]; then
		forwarded=$(($(handed_over r1) - forwarded))
	else
		forwarded=${told%% *}
	fi
	echo "$told$forwarded $((after - before))"
}
