# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The generator and the sink, in namespaces of these names of one kernel: g0 and s0 are behind the
# device under test, c0 and s1 are joined without one. The sink drops at tc ingress: it answers
# nothing, and it counts.

# What is sent, for `generate`: to one destination or random ones; the ID of the VLAN that the router
# is in, if any; and pktgen's xmit_mode: only queue_xmit passes what is attached to the device.
# THEN is SECONDS GAP: the gap from then on.
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

# Sends `count` packets, `gap` nanoseconds from one to the next, or 0: at once; for at most `limit`
# seconds, or 0: until all are sent. pktgen's own thread of CPU `cpu` does it. Ports go round: one
# flow each. With DESTINATIONS=random each packet has a destination of its own, in the widest range
# without a special network in it, where routes of routeset.py are, too. With TAG in a VLAN, the frame
# 4 bytes longer. A mix of sizes is SIZE,PERCENT for each, separated by spaces. Prints packets sent, those that the device refused, and elapsed microseconds.
#
# To take a device from pktgen's threads, and to give it one, takes an eighth of a second each: one that
# was asked for the same the last time, but for size, number and rate, stays as it is.
# shellcheck disable=SC2016  # the inner shell expands
generate() { # device destination-mac family bytes|mix flows count gap limit cpu
	nsenter --net=/run/netns/generator sh -euc '
		thread=/proc/net/pktgen/kpktgend_$9
		device=/proc/net/pktgen/$1
		start="echo start >/proc/net/pktgen/pgctrl"
		# A signal to who waits for it stops the generator.
		[ "$8" = 0 ] || start="timeout $8 sh -c \"$start\" || [ \$? = 124 ]"
		same="$1 $2 $3 $5 $9 $DESTINATIONS $XMIT $TAG" last= mix=
		for one in $4; do
			size=$((${one%,*} + ${TAG:+4 +} 0))
			[ "$one" = "${one%,*}" ] || mix="$mix $size,${one#*,}"
		done
		if [ -n "$mix" ]; then
			same="$same$mix"
			set -- "$@" "imix_weights$mix" "count $6" "delay $7"
		else
			set -- "$@" "pkt_size $size" "count $6" "delay $7"
		fi
		[ ! -e "$device" ] || [ ! -e /run/skblab-pktgen ] || read -r last </run/skblab-pktgen
		if [ "$last" != "$same" ]; then
			: >/run/skblab-pktgen
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
				"udp_src_min 1024" "udp_src_max $((1024 + $5))" \
				"udp_dst_min 1024" "udp_dst_max 1024" "xmit_mode $XMIT"
			[ -z "$TAG" ] || set -- "$@" "vlan_id $TAG"
		fi
		shift 9
		for setting; do echo "$setting" >"$device"; done
		echo "$same" >/run/skblab-pktgen
		if [ -n "$THEN" ]; then
			rm -f /run/skblab-step
			look() {
				while read -r line; do
					case $line in
					started:*) began=${line#started: } began=${began%%us*} ;;
					seq_num:*) number=${line#seq_num: } number=${number%% *} ;;
					esac
				done <"$device"
			}
			(
				# Until it has begun its number is that of the last time.
				left=1000
				until grep -q "^Result: Starting" "$device" || [ "$left" = 0 ]; do
					left=$((left - 1))
					sleep 0.01
				done
				sleep "${THEN% *}"
				look
				first=$number
				echo "delay ${THEN#* }" >"$device"
				look
				read -r up _ </proc/uptime
				echo "$first $number ${up%.*}${up#*.}0000 $began" >/run/skblab-step
			) &
		fi
		eval "$start"
		wait
		# One that was stopped ends on its own time.
		left=100 took=
		while :; do
			while read -r first second third fourth _; do
				[ "$first" != pkts-sofar: ] || sent="$second $fourth"
				[ "$first $second" != "Result: OK:" ] || took=${third%%(*}
			done <"$device"
			case $took in *[!0-9]* | "") ;; *) break ;; esac
			left=$((left - 1))
			[ "$left" -gt 0 ] || break
			sleep 0.05
		done
		echo "$sent $took"
	' sh "$@"
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
	told=$(generate "$device" "$mac" "$@")
	after=$(settled "$far" $((before + ${told%% *})))
	echo "$told $((after - before)) $after"
}
