# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # variables without a value here are set by the caller.
# Instructions per packet with and without a reader of the path, in `exact` mode, where the
# guest's clock counts instructions.
#
#   generator:g0 ─ router:r0  router:r1 ─ sink:s0     forward
#   generator:u0 ─────────────────── receiver:v0      receive: into a socket's queue; then read
#   generator:c0 ─────────────────────── sink:s1      tester: generator, veth, sink
#
# One CPU, never idle between pktgen's first and last packet, so pktgen's elapsed time is
# instructions / 1000. It goes on from netns.sh and symbols.sh.
# With two NUMA nodes $node is that of the packets' memory; with $remote the program that reads them
# is on the second one.
# Prints a line a trial: row repeat part family packets delivered nanoseconds
# those outside the counts after a word that says what they are for. What a row's reader saw is in
# files of $out.
set -eu

# The smallest frame; with IPv6 it has to hold the generator's own header. Prints elapsed microseconds.
timed() { # family device destination-mac packets [destination-address]
	if [ "$1" = 4 ]; then size=60; else size=78; fi
	told=$(generate family="$1" device="$2" mac="$3" count="$4" size="$size" to="${5:-}" tag="${vlan:-}" \
		destinations="${destinations:-fixed}" marked="${marks:+$programs/marked}" \
		node="${node:-}")
	[ "${told%% *}" = "$4" ]
	echo "${told##* }"
}

through() { # part family device destination-mac sink-device
	vlan=
	if [ -n "${napi:-}" ]; then
		give_way
		[ "$1" != forward ] || vlan=$(tag)
	fi
	before=$(came "$5")
	elapsed=$(timed "$2" "$3" "$4" "$packets")
	if [ -n "${napi:-}" ]; then after=$(settled "$5" $((before + packets))); else after=$(came "$5"); fi
	trial "$1" "$2" $((after - before)) $((elapsed * 1000))
}

# A trial's line; in the file $kept too, if there is one.
trial() { # part family delivered nanoseconds
	echo "$row $repeat $1 $2 $packets $3 $4" | tee -a "${kept:-/dev/null}"
}

# In batches ($batch, or 1000): a queue that grows without end would measure how memory is found
# for it.
receive() { # family destination-address
	[ -z "${napi:-}" ] || give_way
	rm -f /tmp/ask /tmp/answer
	mkfifo /tmp/ask /tmp/answer
	ip netns exec receiver "$programs/drain" "$2" 1024 ${marks:+${remote:-marked}} </tmp/ask >/tmp/answer &
	exec 8>/tmp/ask 9</tmp/answer
	read -r answer <&9
	[ "$answer" = ready ]
	sent=0 got=0 into=0 out_of=0
	while [ "$sent" -lt "$packets" ]; do
		now=$((packets - sent > ${batch:-1000} ? ${batch:-1000} : packets - sent))
		elapsed=$(timed "$1" u0 02:00:00:00:00:08 "$now" "$2")
		echo go >&8
		read -r count nanoseconds <&9
		sent=$((sent + now)) got=$((got + count))
		into=$((into + elapsed * 1000)) out_of=$((out_of + nanoseconds))
	done
	exec 8>&- 9<&-
	wait $!
	trial queue "$1" "$got" "$into"
	trial read "$1" "$got" "$out_of"
}

# Every experiment of the row once, for $families, or both.
round() {
	for family in ${families:-4 6}; do
		if [ "$family" = 4 ]; then here=198.20.0.1; else here=2001:db8:0:3::1; fi
		for part in $parts; do
			case $part in
			tester) through tester "$family" c0 "$S1_MAC" s1 ;;
			forward) through forward "$family" g0 "$R0_MAC" s0 ;;
			receive) receive "$family" "$here" ;;
			esac
		done
	done
}

# The same with a few packets and outside the counts: `warm-up` fills the caches of memory, routes
# and neighbours, `proof` is for those whose figures come from a run of their own. Nobody counts
# their instructions: that is slow.
aside() { # name packets
	counted=$packets counts=${kept:-}
	packets=$2 marks='' kept=''
	round | sed "s/^/$1 /"
	packets=$counted marks=${symbols:-} kept=$counts
}

# The rows in which a packet takes more or less, by a share of more than $most_uneven, where there are
# many than where there are few, by the least of each: something else ran meanwhile.
uneven() {
	awk -v most="$most_uneven" '
		{ one = $1 " " $3 " " $4 }
		!((one, $5) in least) || $7 < least[one, $5] { least[one, $5] = $7 }
		!(one in few) || $5 < few[one] { few[one] = $5 }
		$5 > many[one] { many[one] = $5 }
		END {
			for (one in few) {
				among_few = least[one, few[one]] / few[one]
				among_many = least[one, many[one]] / many[one]
				split(one, words, " ")
				more = among_many - among_few
				if (more > most * among_few || -more > most * among_many) print words[1]
			}
		}' "$kept" | sort -u | tr '\n' ' '
}

# Wait until a reader in the background says that it is attached, as a line or, bpftrace, as JSON.
ready() { # file
	tries=0
	until grep -q '^ready\|"ready\\n"' "$1"; do
		tries=$((tries + 1))
		if [ "$tries" -gt 600 ] || ! kill -0 "$reading" 2>/dev/null; then
			echo "$row: its reader did not start: $(tail -n 1 "$1")" >&2
			exit 1
		fi
		sleep 1
	done
	sleep 1
}

load() { # object
	bpftool prog loadall "$programs/$1.bpf.o" /sys/fs/bpf/reader pinmaps /sys/fs/bpf/maps autoattach
}

unload() {
	rm -rf /sys/fs/bpf/reader /sys/fs/bpf/maps
}

dump() { # map
	bpftool -j map dump pinned "/sys/fs/bpf/maps/_bss_$1"
	echo
}

reader_on() {
	case $reader in
	bpf:*) load "${reader#bpf:}" ;;
	bpftrace:*)
		BPFTRACE_MAX_MAP_KEYS=65536 bpftrace "$sources/${reader#bpftrace:}" >"$seen" 2>&1 &
		reading=$!
		ready "$seen"
		;;
	systemtap)
		staprun "$programs/skblab_path.ko" >"$seen" 2>&1 &
		reading=$!
		ready "$seen"
		;;
	pathlat*)
		options=${reader#pathlat}
		case $options in *histograms*) echo 1 >/sys/kernel/debug/net_path/napi ;; esac
		# shellcheck disable=SC2086  # options
		pathlat ${options#:} --output "$out/$name.json" 2>"$seen" &
		reading=$!
		ready "$seen"
		;;
	scripts)
		readings=
		for script in "$programs"/reader-*; do
			own=$out/$name-${script##*/reader-}
			sh "$script" >"$own.txt" 2>"$own.err" &
			reading=$!
			readings="$readings $reading"
			ready "$own.txt"
		done
		;;
	polls) echo 1 >/sys/kernel/debug/net_path/napi ;;
	late)
		# The longest limit there is, 36 years: the kernel looks, and finds none.
		echo $((1 << 60)) >/sys/kernel/debug/net_path/late_age_ns
		echo 1 >/sys/kernel/tracing/events/net_path/net_path_late/enable
		;;
	esac
}

# Have a reader in the background end.
stop() { # process
	kill -INT "$1"
	wait "$1" || [ $? = 130 ]
}

reader_off() {
	case $reader in
	bpf:*) unload ;;
	bpftrace:* | systemtap | pathlat*) stop "$reading" ;;
	scripts) for reading in $readings; do stop "$reading"; done ;;
	late)
		echo 0 >/sys/kernel/tracing/events/net_path/net_path_late/enable
		echo 0 >/sys/kernel/debug/net_path/late_age_ns
		;;
	esac
	case $reader in
	polls | pathlat*histograms*) echo 0 >/sys/kernel/debug/net_path/napi ;;
	esac
}

# What shows that the row did its work, in $out/$name.json or, if the reader writes text, .txt.
proof() {
	case $proof in
	hists) dump hists >"$out/$name.json" ;;
	debugfs) cp /sys/kernel/debug/net_path/histograms "$seen" ;;
	polls)
		echo 1 >/sys/kernel/debug/net_path/reset
		aside proof 500
		cp /sys/kernel/debug/net_path/histograms "$seen"
		;;
	runs)
		sysctl -q -w kernel.bpf_stats_enabled=1
		aside proof 500
		sysctl -q -w kernel.bpf_stats_enabled=0
		bpftool -j prog show >"$out/$name.json"
		;;
	esac
}

# `trace` is a value of net.core.path_trace; none: there must not be such a setting; any: it stays.
# With one reader attached, each part is counted $rounds times, or once.
run() { # row trace reader proof parts...
	row=$1 trace=$2 reader=$3 proof=$4
	shift 4
	parts=$*
	name=$row-$boot-$repeat
	seen=$out/$name.txt
	: >"$seen"
	if [ "$trace" = none ]; then
		[ ! -e /proc/sys/net/core/path_trace ]
	elif [ "$trace" != any ]; then
		sysctl -q -w "net.core.path_trace=$trace"
		[ "$(sysctl -n net.core.path_trace)" = "$trace" ]
		# What an earlier row has counted stays, where stamps are off now.
		echo 1 >/sys/kernel/debug/net_path/reset
	fi
	reader_on
	aside warm-up 2000
	turn=0
	while [ "$turn" -lt "${rounds:-1}" ]; do
		round
		turn=$((turn + 1))
	done
	proof
	[ -z "${symbols:-}" ] || list_symbols "$symbols" >"$out/symbols-$name.txt"
	reader_off
	case $trace in none | any) ;; *) sysctl -q -w net.core.path_trace=0 ;; esac
}

lay_out_rows() {
	if [ -n "${napi:-}" ]; then lay_out; else lay_out_plain; fi
	quiet receiver
	pair u0 generator 02:00:00:00:00:07 v0 receiver 02:00:00:00:00:08
	if [ -n "${napi:-}" ]; then
		ip netns exec receiver ethtool -K v0 gro on
		# See lay_out of netns.sh.
		ip netns exec generator ethtool -K u0 tso off
	fi
	speak "$IN/receiver" v0
	ip -n receiver address add 198.20.0.1/24 dev v0
	ip -n receiver address add 2001:db8:0:3::1/64 dev v0 nodad
	ip -n receiver route add 198.18.0.0/24 dev v0
	ip -n receiver route add 2001:db8:0:1::/64 dev v0
	ip netns exec receiver sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.v0.rp_filter=0
	[ "${destinations:-fixed}" = fixed ] || lead_all_to_the_sink
	# Multicast reports of the new addresses go out; an idle guest's clock jumps there.
	sleep 2
}

# Settings of the router are made between the one and the other.
[ -n "${laid_out:-}" ] || lay_out_rows
