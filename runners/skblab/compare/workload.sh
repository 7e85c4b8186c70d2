# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154,SC2086  # variables without a value here are set by the caller; IN is words.
# Functions for the files in runners/workloads/. Each has two functions, which run in different shells:
#
#   prepare   lays out namespaces and devices; `lacking` for a kernel that cannot do it
#   load      sends $packets through them, and says with `counted` what came of it
#
# It goes on from symbols.sh of the benchmark, and from net.sh, generator.sh, tester.sh, router.sh and
# netns.sh: lay_out makes generator, router and sink, and sent_through sends between them.
set -eu

# Exit status if the kernel or the guest lacks what a workload needs.
NOT_HERE=77

# This kernel cannot do it, and why.
lacking() { # words...
	echo "$*" >&2
	exit "$NOT_HERE"
}

# Report a load. `whole`: all that its packets take; `tester`: the same without the router, which skblab
# subtracts. SECTIONS: how many marked sections (probes/functions/mark.h) have its instructions.
counted() { # whole|tester packets taken nanoseconds [sections]
	echo "counted $turn $round $1 $2 $3 $4 ${5:-1}"
}

# Packets from pktgen on a device of the generator's, of which all that `arrived` says are taken. The
# words are those of `generate`.
sent() { # whole|tester device mac arrived sink-device name=value...
	part=$1 device=$2 mac=$3 arrived=$4 far=$5
	shift 5
	give_way
	before=$($arrived "$far")
	told=$(generate device="$device" mac="$mac" count="$packets" marked="$marked" "$@")
	after=$($arrived "$far" $((before + packets)))
	[ "${told%% *}" = "$packets" ] || { echo "pktgen sent ${told%% *} of $packets packets" >&2; exit 1; }
	counted "$part" "$packets" $((after - before)) $((${told##* } * 1000))
}

# Send through the router, and once straight to the sink.
sent_through() { # name=value...
	sent tester c0 "$S1_MAC" settled s1 "$@"
	# If a setting put the router in a VLAN.
	sent whole g0 "$R0_MAC" settled s0 tag="$(tag)" "$@"
}

# Frames without checksum: the smallest ones, as RFC 2544 has them; with IPv6 pktgen's own header.
sent_family() { # 4|6 name=value...
	family=$1
	shift
	if [ "$family" = 4 ]; then size=60; else size=78; fi
	sent_through family="$family" size="$size" "$@"
}

# Packets to a socket of the namespace receiver, in five batches: a queue that grows without end would
# measure how memory is found for it. drain's words say which socket.
received() { # family mac destination-address drain's words...
	family=$1 mac=$2 to=$3
	shift 3
	if [ "$family" = 4 ]; then size=60; else size=78; fi
	give_way
	rm -f /tmp/ask /tmp/answer
	mkfifo /tmp/ask /tmp/answer
	$IN/receiver "$programs/drain" "$@" ${marked:+marked} </tmp/ask >/tmp/answer &
	exec 8>/tmp/ask 9</tmp/answer
	read -r answer <&9
	[ "$answer" = ready ]
	batch=$((packets / 5)) number=0 got=0 took=0
	while [ "$number" -lt 5 ]; do
		told=$(generate device=u0 mac="$mac" family="$family" size="$size" to="$to" \
			count="$batch" marked="$marked")
		[ "${told%% *}" = "$batch" ]
		echo go >&8
		read -r some nanoseconds <&9
		number=$((number + 1)) got=$((got + some)) took=$((took + ${told##* } * 1000 + nanoseconds))
	done
	exec 8>&- 9<&-
	wait $!
	counted whole $((batch * 5)) "$got" "$took" 10
}

# What exchange does (probes/bench/exchange.c), so many times as there are packets.
exchanged() { # exchange's words up to SIZE [SEGMENT]
	last=${segment:-}
	told=$(MARKED=$marked "$programs/exchange" "$@" "$packets" ${last:+"$last"})
	# Three numbers.
	set -- $told
	counted whole "$1" "$2" "$3"
}

RECEIVER_MAC=02:00:00:00:00:08 NOBODYS_MAC=02:00:00:00:00:99

#   generator:u0 ─ receiver:v0
# The receiver's device has NAPI, as a network card has.
lay_out_receiver() {
	quiet generator receiver
	pair u0 generator 02:00:00:00:00:07 v0 receiver "$RECEIVER_MAC"
	$IN/receiver ethtool -K v0 gro on
	# See lay_out of netns.sh.
	$IN/generator ethtool -K u0 tso off
	speak "$IN/receiver" v0
	give_address "$IN/receiver" v0 198.18.0.1/24 198.18.0.2 02:00:00:00:00:07
	give_address "$IN/receiver" v0 2001:db8:0:1::1/64 2001:db8:0:1::2 02:00:00:00:00:07
	$IN/receiver sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.v0.rp_filter=0
}

#   sender:d0    a dummy, which takes all packets, and they are gone
lay_out_sender() {
	quiet sender
	ip -n sender link add d0 type dummy || lacking "it has no dummy devices (CONFIG_DUMMY)"
	ip -n sender link set d0 up
	speak "$IN/sender" d0
	give_address "$IN/sender" d0 198.18.0.2/24 198.18.0.1 "$NOBODYS_MAC"
	give_address "$IN/sender" d0 2001:db8:0:1::2/64 2001:db8:0:1::1 "$NOBODYS_MAC"
}

# Before Linux 6.5 all packets wait for ksoftirqd once it was woken, and exchange comes before each thread
# of a lower priority: it would find nothing of what it has sent.
softirqs_first() {
	[ "$(printf '6.5\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 6.5 ] ||
		for thread in $(pgrep -x 'ksoftirqd/[0-9]+'); do chrt --fifo --pid 2 "$thread"; done
}

#   near:n0 ─ far:f0    two hosts, both with all that veth can offload
lay_out_hosts() {
	quiet near far
	softirqs_first
	pair n0 near 02:00:00:00:00:0a f0 far 02:00:00:00:00:0b
	for end in near:n0:1:2:0b far:f0:2:1:0a; do
		host=${end%%:*} end=${end#*:} device=${end%%:*} end=${end#*:}
		own=${end%%:*} end=${end#*:} other=${end%%:*} mac=${end#*:}
		speak "$IN/$host" "$device"
		give_address "$IN/$host" "$device" "198.18.0.$own/24" "198.18.0.$other" "02:00:00:00:00:$mac"
		give_address "$IN/$host" "$device" "2001:db8:0:1::$own/64" "2001:db8:0:1::$other" \
			"02:00:00:00:00:$mac"
	done
}

# Large packets of the sender's are cut into frames before its driver, and merged again where they arrive,
# by NAPI: see lay_out of netns.sh.
merge_and_cut() {
	$IN/near ethtool -K n0 tso off tx-udp-segmentation off
	$IN/far ethtool -K f0 gro on
}

# An XDP program of the router's first device (probes/bench/NAME.bpf.c), by the driver, and its map.
xdp() { # name
	mkdir -p /sys/fs/bpf
	mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
	bpftool prog load "$programs/$1.bpf.o" /sys/fs/bpf/xdp type xdp pinmaps /sys/fs/bpf/xdp-maps ||
		lacking "it takes no XDP program (CONFIG_BPF_SYSCALL)"
	$IN_ROUTER ip link set dev r0 xdpdrv pinned /sys/fs/bpf/xdp
}

# Frames that xdp-drop has dropped.
xdp_dropped() { # device [all]
	bpftool -j map lookup pinned /sys/fs/bpf/xdp-maps/dropped key 0 0 0 0 |
		sed 's/.*"value":\([0-9]*\).*/\1/'
}

# By which device xdp-redirect sends on: its map has the number.
xdp_to() { # device
	read -r index <"$SEEN/router/class/net/$1/ifindex"
	# shellcheck disable=SC2046  # four words
	# A number of the namespace that it is told in.
	$IN_ROUTER bpftool map update pinned /sys/fs/bpf/xdp-maps/to key 0 0 0 0 value $(
		printf '%d %d %d %d' $((index & 255)) $((index >> 8 & 255)) 0 0
	)
}

# Multicast reports of new addresses go out; an idle guest's clock jumps there.
rest() { sleep 2; }

# So many turns with few packets and with many. Nobody counts the first packets, which fill the caches of
# memory, routes and neighbours. What names the functions is left in $symbols.
rounds() { # turns few many loaded|all
	turn=0 round=warm-up packets=2000 marked=
	load
	for number in $(seq "$1"); do
		turn=$number marked=$programs/marked
		round=few packets=$2
		load
		round=many packets=$3
		load
	done
	list_symbols "$4" >"$symbols"
}
