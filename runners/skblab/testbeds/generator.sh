# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The generator of demo, benchmark and sweeps: pktgen, which sends UDP datagrams from a device of the
# namespace `generator`. All send by this, so that the same packet costs the same in all figures.
#
# What is asked for are words NAME=VALUE. Without `device` and `mac` (of the port that packets go to)
# there is nothing; the others, and what they are if they are not given:
#   family=4             4 or 6
#   size=60              bytes without checksum; or a mix: SIZE,PERCENT for each, separated by spaces
#   flows=1              source ports, which go round
#   to=                  the destination; or else the sink behind the router
#   destinations=fixed   or random: for each packet one of its own, in the widest range without a
#                        special network in it, where routes of routeset.py are, too
#   count=0 gap=0        packets, and nanoseconds from one to the next, or 0: at once
#   limit=0              seconds after which it is stopped; 0: all are sent
#   cpu=0                whose pktgen thread sends
#   tag=                 the ID of a VLAN, the frame 4 bytes longer
#   xmit=start_xmit      pktgen's xmit_mode: only queue_xmit passes what is attached to the device
#   step=                SECONDS GAP: the gap from then on; what had been sent is in /run/skblab-step
# Prints packets sent, those that the device refused, and elapsed microseconds.
#
# To take a device from pktgen's threads, and to give it one, takes an eighth of a second each: one that
# was asked for the same the last time, but for size, number and rate, stays as it is.
# shellcheck disable=SC2016  # the inner shell expands
generate() { # name=value...
	nsenter --net=/run/netns/generator sh -euc '
		device= mac= family=4 size=60 flows=1 to= destinations=fixed count=0 gap=0 limit=0 cpu=0
		tag= xmit=start_xmit step=
		for one; do
			case ${one%%=*} in
			device | mac | family | size | flows | to | destinations) ;;
			count | gap | limit | cpu | tag | xmit | step) ;;
			*)
				echo "generate: $one: no such word" >&2
				exit 2
				;;
			esac
			export "$one"
		done
		thread=/proc/net/pktgen/kpktgend_$cpu
		file=/proc/net/pktgen/$device
		start="echo start >/proc/net/pktgen/pgctrl"
		# A signal to who waits for it stops the generator.
		[ "$limit" = 0 ] || start="timeout $limit sh -c \"$start\" || [ \$? = 124 ]"
		same="$device $mac $family $flows $cpu $to $destinations $xmit $tag" last= mix=
		for one in $size; do
			bytes=$((${one%,*} + ${tag:+4 +} 0))
			[ "$one" = "${one%,*}" ] || mix="$mix $bytes,${one#*,}"
		done
		if [ -n "$mix" ]; then
			same="$same$mix"
			set -- "imix_weights$mix"
		else
			set -- "pkt_size $bytes"
		fi
		set -- "$@" "count $count" "delay $gap"
		[ ! -e "$file" ] || [ ! -e /run/skblab-pktgen ] || read -r last </run/skblab-pktgen
		if [ "$last" != "$same" ]; then
			: >/run/skblab-pktgen
			for one in /proc/net/pktgen/kpktgend_*; do echo rem_device_all >"$one"; done
			echo "add_device $device" >"$thread"
			if [ "$family" = 4 ]; then
				set -- "$@" "src_min 198.18.0.2" "src_max 198.18.0.2"
			else
				set -- "$@" "src6 2001:db8:0:1::2"
			fi
			case $destinations$family in
			fixed4) set -- "$@" "dst ${to:-198.19.0.2}" ;;
			fixed6) set -- "$@" "dst6 ${to:-2001:db8:0:2::2}" ;;
			random4) set -- "$@" "dst_min 11.0.0.0" "dst_max 99.255.255.255" "flag IPDST_RND" ;;
			random6)
				set -- "$@" "dst6_min 2400::" "dst6_max 240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
				;;
			esac
			# Packets that the generator keeps no part of, as those of a network card: of a shared one
			# who receives it makes a clone, which is no work of a router.
			set -- "$@" "flag !SHARED" "flag UDPCSUM" "clone_skb 0" "dst_mac $mac" \
				"udp_src_min 1024" "udp_src_max $((1024 + flows))" \
				"udp_dst_min 1024" "udp_dst_max 1024" "xmit_mode $xmit"
			[ -z "$tag" ] || set -- "$@" "vlan_id $tag"
		fi
		for setting; do echo "$setting" >"$file"; done
		echo "$same" >/run/skblab-pktgen
		if [ -n "$step" ]; then
			rm -f /run/skblab-step
			look() {
				while read -r line; do
					case $line in
					started:*) began=${line#started: } began=${began%%us*} ;;
					seq_num:*) number=${line#seq_num: } number=${number%% *} ;;
					esac
				done <"$file"
			}
			(
				# Until it has begun its number is that of the last time.
				left=1000
				until grep -q "^Result: Starting" "$file" || [ "$left" = 0 ]; do
					left=$((left - 1))
					sleep 0.01
				done
				sleep "${step% *}"
				look
				first=$number
				echo "delay ${step#* }" >"$file"
				look
				read -r up _ </proc/uptime
				echo "$first $number ${up%.*}${up#*.}0000 $began" >/run/skblab-step
			) &
		fi
		# Its result is how the last setting was taken until it begins. Where a busy CPU did not let it
		# begin within `limit` nothing was sent, and it is started once more.
		tries=3 took=
		while [ -z "$took" ] && [ "$tries" -gt 0 ]; do
			tries=$((tries - 1))
			eval "$start"
			# One that was stopped ends on its own time.
			left=100
			while [ -z "$took" ] && [ "$left" -gt 0 ]; do
				while read -r first second third fourth _; do
					[ "$first" != pkts-sofar: ] || sent="$second $fourth"
					[ "$first" != Result: ] || result="$second $third"
				done <"$file"
				took=${result#OK: } took=${took%%(*}
				case $took in *[!0-9]*) took= ;; esac
				left=$((left - 1))
				[ -n "$took" ] || sleep 0.05
			done
			case $result in OK:*) ;; *) break ;; esac
		done
		wait
		if [ -z "$took" ]; then
			echo "generate: pktgen did not end (\"$result\"): CPU $cpu has no time for it" >&2
			exit 1
		fi
		echo "$sent $took"
	' sh "$@"
}
