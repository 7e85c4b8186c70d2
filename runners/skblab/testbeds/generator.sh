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
#   macs=1               Ethernet addresses that packets go to, which go round from `mac` on, and as many
#                        that they come from, from that of the device on
#   to= from=            the destination, and the source; or else the sink behind the router, and its tester
#   port=1024            UDP port that packets go to
#   destinations=fixed   or random: for each packet one of its own, in the widest range without a
#                        special network in it, where routes of routeset.py are, too
#   count=0 gap=0        packets, and nanoseconds from one to the next, or 0: at once
#   ratep=               packets a second, instead of the gap: pktgen works out the time between them
#   limit=0              seconds after which it is stopped; 0: all are sent
#   cpu=0                whose pktgen thread sends
#   tag=                 the ID of a VLAN, the frame 4 bytes longer
#   xmit=start_xmit      pktgen's xmit_mode: only queue_xmit passes what is attached to the device
#   marked=              a program that writes a line, its first argument, to the file that is its second,
#                        and marks both ends for who counts instructions (probes/bench/marked.c)
#   step=                SECONDS GAP: the gap from then on; what had been sent is in /run/skblab-step
# Where the kernel knows no other way than to share each packet with who receives it, which makes a
# clone, there is /run/skblab-shared then.
# Prints packets sent, those that the device refused, and elapsed microseconds. GENERATOR is another
# namespace instead of `generator`; the files of /run are in /run/skblab-GENERATOR then. PKTGEN is for
# tests: a folder in place of /proc/net/pktgen/ and /run/.
#
# To take a device from pktgen's threads, and to give it one, takes an eighth of a second each: one that
# was asked for the same the last time, but for size, number and rate, stays as it is.
# shellcheck disable=SC2016  # the inner shell expands
generate() { # name=value...
	nsenter --net="/run/netns/${GENERATOR:-generator}" sh -euc '
		device= mac= family=4 size=60 flows=1 macs=1 to= from= port=1024 destinations=fixed count=0 gap=0
		ratep= limit=0 cpu=0 node= tag= xmit=start_xmit marked= step=
		for one; do
			case ${one%%=*} in
			device | mac | macs | family | size | flows | to | from | port | destinations) ;;
			count | gap | ratep | limit | cpu | node | tag | xmit | marked | step) ;;
			*)
				echo "generate: $one: no such word" >&2
				exit 2
				;;
			esac
			export "$one"
		done
		pktgen=${PKTGEN:-/proc/net/pktgen} run=${PKTGEN:-/run${GENERATOR:+/skblab-$GENERATOR}}
		[ -e "$run" ] || mkdir -p "$run"
		if ! [ -e "$pktgen/pgctrl" ]; then
			echo "generate: this kernel has no pktgen, which sends all packets: it needs CONFIG_NET_PKTGEN" >&2
			exit 1
		fi
		thread=$pktgen/kpktgend_$cpu file=$pktgen/$device
		start="echo start >$pktgen/pgctrl" stepper=
		# Where instructions are counted, RCU frees what programs have left (inodes, areas of memory) in
		# the softirq of the first packets, and they would be charged for it. By 0.2 s later all of it is
		# done, unless a program ends meanwhile: who starts waits itself, as marked.c does.
		settled="select(undef,undef,undef,.2);open(F,q(>),shift)||die(\$!);syswrite(F,qq(start\n))||die(\$!)"
		read -r words <"${PKTGEN:-/proc}/cmdline"
		case "$limit $words " in "0 "*" skblab.exact=1 "*) start="perl -e \$settled $pktgen/pgctrl" ;; esac
		[ -z "$marked" ] || start="$marked start $pktgen/pgctrl pktgen_xmit,pktgen_alloc_skb pktgen_stop_device"
		# A signal to who waits for it stops the generator; one that comes before it was asked to start is for
		# nothing, and its time begins anew.
		if [ "$limit" != 0 ]; then
			[ -z "$marked" ] || { echo "generate: limit= and marked= exclude each other" >&2; exit 2; }
			asked="exec 3>$pktgen/pgctrl; : >$run/skblab-asked; echo start >&3"
			start="timeout $limit sh -c \"$asked\" || [ \$? = 124 ]"
			start="left=20; rm -f $run/skblab-asked; until [ -e $run/skblab-asked ]; do
				[ \$left -gt 0 ] || give_up \"was asked to start by nobody in 20 times $limit s\"
				left=\$((left - 1)); $start; done; rm -f $run/skblab-asked"
		fi
		same="$device $mac $macs $family $flows $cpu $to $from $port $destinations $xmit $tag $node" last= mix=
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
		set -- "$@" "count $count" "${ratep:+ratep }${ratep:-delay $gap}"
		[ ! -e "$file" ] || [ ! -e "$run/skblab-pktgen" ] || read -r last <"$run/skblab-pktgen"
		give_up() {
			echo "generate: pktgen $1" >&2
			exit 1
		}
		has_device() { # THREAD
			empty=0
			while read -r list devices; do
				case $list$devices in Running: | Stopped:) empty=$((empty + 1)) ;; esac
			done <"$1"
			[ "$empty" != 2 ]
		}
		if [ "$last" != "$same" ]; then
			: >"$run/skblab-pktgen"
			# A thread does it when it next runs, and loses what it was given meanwhile, too.
			left=600
			for other in "$pktgen"/kpktgend_*; do
				has_device "$other" || continue
				echo rem_device_all >"$other"
				while has_device "$other"; do
					[ "$left" -gt 0 ] || give_up "kept a device for 30 s: ${other##*/} has no time"
					left=$((left - 1))
					sleep 0.05
				done
			done
			echo "add_device $device" >"$thread"
			if [ "$family" = 4 ]; then
				set -- "$@" "src_min ${from:-198.18.0.2}" "src_max ${from:-198.18.0.2}"
			else
				set -- "$@" "src6 ${from:-2001:db8:0:1::2}"
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
				"udp_dst_min $port" "udp_dst_max $port" "xmit_mode $xmit"
			[ -z "$tag" ] || set -- "$@" "vlan_id $tag"
			# Whose memory packets are in.
			[ -z "$node" ] || set -- "$@" "flag NODE" "node $node"
			if [ "$macs" != 1 ]; then
				# Of the address of the device pktgen takes the first byte only, and counts from 02:00:00:00:00:00
				# on: among these are ports of ours, of which a bridge warns.
				own=$(ip -o link show dev "$device" | sed -n "s/.*link.ether \([0-9a-f:]*\) .*/\1/p")
				[ -n "$own" ] || give_up "counts addresses of Ethernet devices only, and $device is none"
				set -- "$@" "dst_mac_count $macs" "src_mac $own" "src_mac_count $macs"
			fi
		fi
		for setting; do
			echo "$setting" >"$file"
			# Older kernels (6.1) have no such flag, and say so to who looks only.
			case $setting in *!SHARED) ! grep -q "!SHARED:- unknown" "$file" || : >"$run/skblab-shared" ;; esac
		done
		echo "$same" >"$run/skblab-pktgen"
		# When it began and ended (or, while it runs, the time), microseconds; what was sent until then.
		began=0 ended=0 sent= number= result=
		look() {
			while read -r first second third fourth _; do
				case $first in
				pkts-sofar:) sent="$second $fourth" ;;
				started:) began=${second%us} ended=${fourth%us} ;;
				seq_num:) number=$second ;;
				Result:) result="$second $third" ;;
				esac
			done <"$file"
		}
		runs() {
			read -r _ devices <"$thread"
			case " $devices " in *" $device "*) ;; *) false ;; esac
		}
		# What has to begin yet does so after a stop, and sends nothing only if its device is taken away.
		stop_all() {
			[ -z "$stepper" ] || kill "$stepper" 2>/dev/null || :
			rm -f "$run/skblab-step"
			echo stop >"$pktgen/pgctrl"
			: >"$run/skblab-pktgen"
			echo rem_device_all >"$thread"
		}
		look
		earlier=$began
		trap stop_all EXIT
		if [ -n "$step" ]; then
			rm -f "$run/skblab-step"
			(
				# Until it has begun its number is that of the last time.
				while look && [ "$began" = "$earlier" ]; do sleep 0.01; done
				sleep "${step% *}" 2>/dev/null
				look
				before=$number
				echo "delay ${step#* }" >"$file"
				look
				read -r up _ </proc/uptime
				echo "$before $number ${up%.*}${up#*.}0000 $began" >"$run/skblab-step"
			) >/dev/null &
			stepper=$!
		fi
		eval "$start"
		# That waits for a thread that runs, and for none that a busy CPU lets begin only after an eighth
		# of a second: the start is still due then. A second one would begin anew what began meanwhile.
		left=2400
		while look && [ "$began" = "$earlier" ]; do
			case $result in Error*) give_up "did not start: $result" ;; esac
			[ "$left" -gt 0 ] || give_up "did not begin in 120 s: CPU $cpu has no time for it"
			left=$((left - 1))
			sleep 0.05
		done
		# One that was stopped ends on its own time.
		case $limit in *.*) part=${limit#*.}000000 ;; *) part=000000 ;; esac
		most=$((${limit%.*}000000 + 1${part%"${part#??????}"} - 1000000)) left=100
		while look && runs || [ "$ended" -lt "$began" ]; do
			if [ "$most" != 0 ] && [ $((ended - began)) -ge "$most" ]; then
				[ "$left" != 100 ] || echo stop >"$pktgen/pgctrl"
				[ "$left" -gt 0 ] || give_up "did not end (\"$result\"): CPU $cpu has no time for it"
				left=$((left - 1))
			fi
			sleep 0.05
		done
		# It no longer runs a moment before there is the time of its end.
		while look && [ "$ended" -lt "$began" ]; do sleep 0.01; done
		[ -z "$stepper" ] || wait "$stepper"
		trap - EXIT
		# Its result may be how a step was taken that came after its end.
		took=${result#OK: } took=${took%%(*}
		case $took in "" | *[!0-9]*) took=$((ended - began)) ;; esac
		echo "$sent $took"
	' sh "$@"
}
