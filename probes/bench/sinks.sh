# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2086  # options are words
# What a packet costs up to where it ends, for each of the places where a receiver can take it. In
# `exact` mode, where the guest's clock counts instructions: docs/explain/receiver.md has the figures.
#
#   generator:c0 ─ sink:s1
#
# Prints a line a row: its name, packets, those that it took, instructions a packet of all that ran.
# With words it runs the rows of these names alone; rx-handler only then.
set -eu
cd "$(dirname "$0")/../.."
. runners/skblab/testbeds/net.sh
. runners/skblab/testbeds/generator.sh
. runners/skblab/testbeds/tester.sh
number=${PACKETS:-20000} work=$(mktemp -d) sink_mac=$S1_MAC nobodys_mac=02:00:00:00:00:99
asked=" $* "

compile() { # name
	clang -O2 -g -target bpf -mcpu=v3 -idirafter "/usr/include/$(gcc -print-multiarch)" \
		-c "probes/bench/$1.bpf.c" -o "$work/$1.o"
}

load() { # name type
	compile "$1"
	bpftool prog load "$work/$1.o" "/sys/fs/bpf/$1" type "$2"
}

# So many packets to a MAC address; prints instructions and how many the device had.
pass() { # mac packets
	before=$(came s1)
	told=$(generate device=c0 mac="$1" count="$2" size=60 to=198.18.0.1)
	[ "${told%% *}" = "$2" ] || { echo "pktgen sent ${told%% *} of $2 packets" >&2; exit 1; }
	echo "$((${told##* } * 1000)) $(($(settled s1 $((before + $2))) - before))"
}

say() { # row instructions
	printf '%-19s %d packets  %8.1f instructions a packet\n' "$1" "$number" \
		"$(echo "$2 $number" | awk '{ print $1 / $2 }')"
}

# The same after some that fill the caches of memory.
row() { # name mac
	pass "$2" 2000 >"$work/warm-up"
	pass "$2" "$number" >"$work/counted"
	read -r instructions took <"$work/counted"
	[ "$took" = "$number" ] || { echo "$1: took $took of $number packets" >&2; exit 1; }
	say "$1" "$instructions"
}

wanted() { [ "$asked" = "  " ] || case $asked in *" $1 "*) ;; *) false ;; esac }

# A program of ours that prints a document, as the sink.
document() { # row pktsink's options...
	name=$1
	shift
	wanted "$name" || return 0
	mkfifo "$work/input"
	: >"$work/ready"
	$IN/sink pktsink --device s1 "$@" <"$work/input" >"$work/$name.json" 2>"$work/ready" &
	sink=$!
	exec 7>"$work/input"
	until grep -q ready "$work/ready"; do
		kill -0 "$sink" || { cat "$work/ready" >&2; exit 1; }
		sleep 0.1
	done
	row "$name" "$sink_mac"
	exec 7>&-
	wait "$sink"
	rm "$work/input"
	grep -q "\"seen\": *$((number + 2000))[,}]" "$work/$name.json" ||
		{ echo "$name: it has not seen all packets" >&2; exit 1; }
}

# A socket, read empty after each batch: a queue that grows without end would measure how memory is
# found for it. A second line has what it takes to read a packet.
socket() { # row mac drain's words...
	wanted "$1" || return 0
	name=$1 mac=$2
	shift 2
	[ -x "$work/drain" ] || gcc -O2 -o "$work/drain" probes/bench/drain.c
	rm -f "$work/ask" "$work/answer"
	mkfifo "$work/ask" "$work/answer"
	$IN/sink "$work/drain" "$@" <"$work/ask" >"$work/answer" &
	exec 7>"$work/ask" 6<"$work/answer"
	read -r answer <&6
	[ "$answer" = ready ]
	sent=0 got=0 into=0 out_of=0
	while [ "$sent" -lt $((number + 1000)) ]; do
		pass "$mac" 1000 >"$work/counted"
		read -r instructions took <"$work/counted"
		echo go >&7
		read -r count nanoseconds <&6
		sent=$((sent + 1000))
		[ "$sent" -gt 1000 ] || continue # which fill caches
		got=$((got + count)) into=$((into + instructions)) out_of=$((out_of + nanoseconds))
	done
	exec 7>&- 6<&-
	wait $!
	[ "$got" = "$number" ] || { echo "$name: got $got of $number packets" >&2; exit 1; }
	say "$name" "$into"
	say "$name-read" "$out_of"
}

quiet generator sink
see sink
pair c0 generator 02:00:00:00:00:05 s1 sink "$sink_mac"
# The sink's device has NAPI, as a network card has; see lay_out of netns.sh.
$IN/sink ethtool -K s1 gro on
ip netns exec generator ethtool -K c0 tso off
$IN/sink ip address add 198.18.0.1/24 dev s1
$IN/sink sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.s1.rp_filter=0
mkdir -p /sys/fs/bpf
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
sleep 2
give_way

if wanted xdp || wanted xdp-generic; then load xdp-drop xdp; fi
for kind in xdp:xdpdrv xdp-generic:xdpgeneric; do
	wanted "${kind%%:*}" || continue
	$IN/sink ip link set dev s1 "${kind#*:}" pinned /sys/fs/bpf/xdp-drop
	row "${kind%%:*}" "$sink_mac"
	$IN/sink ip link set dev s1 "${kind#*:}" off
done
if wanted tcx; then
	load tcx-drop tcx/ingress
	$IN/sink bpftool net attach tcx_ingress pinned /sys/fs/bpf/tcx-drop dev s1
	row tcx "$sink_mac"
	$IN/sink bpftool net detach tcx_ingress dev s1
fi
if wanted matchall; then
	sink s1
	row matchall "$sink_mac"
	tc -n sink qdisc del dev s1 clsact
fi
document pktsink-counters --level counters
document pktsink-throughput --level throughput
document pktsink-time
# A receiver in the kernel. Only if it is asked for: its module takes minutes to compile in a guest.
if [ "${asked#* rx-handler }" != "$asked" ]; then
	cp -r probes/bench/rx_handler "$work/module"
	# The guest's clock in exact mode is not that of the files: make warns.
	make -s -C "/lib/modules/$(uname -r)/build" M="$work/module" modules 2>"$work/make" ||
		{ cat "$work/make" >&2; exit 1; }
	$IN/sink insmod "$work/module/skblab_rx.ko"
	row rx-handler "$sink_mac"
	rmmod skblab_rx
	dmesg | grep -q "skblab_rx: received $((number + 2000)) of" ||
		{ echo "rx-handler: it has not counted all packets" >&2; exit 1; }
fi
# Another host's: the first thing that IPv4's protocol handler drops.
! wanted handler || row handler "$nobodys_mac"
socket packet-socket "$nobodys_mac" packet s1
socket udp-socket "$sink_mac" 198.18.0.1 1024
