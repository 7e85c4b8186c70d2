#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Bad input of pathlat, pktsink and funclat: exit code 2, and one line that says what is wrong. Loads no program.
#   usage: cli.sh FOLDER-OF-THE-BUILD
set -eu
out=${1:?usage: cli.sh FOLDER-OF-THE-BUILD}

# refuses TEXT OPTION...: the program must say TEXT, in one line, and exit with 2
program=pathlat
refuses() {
	text=$1
	shift
	status=0
	said=$("$out/$program" "$@" 2>&1 >/dev/null) || status=$?
	case "$status $(echo "$said" | wc -l) $said" in
	"2 1 $program: "*"$text"*) ;;
	*)
		echo "cli.sh: $program $*: exit $status, expected 2 and \"$text\": $said" >&2
		exit 1
		;;
	esac
}

refuses 'expected a number above 0' --seconds 0
refuses 'expected a number above 0' --seconds 1s
refuses 'expected a number above 0' --seconds nan
refuses 'unrecognized option' --frobnicate
refuses 'unrecognized option' --seconds 1 --frobnicate --port 9
refuses 'invalid option' -q
refuses 'requires an argument' --port
refuses 'ambiguous' --late 1ms --s
refuses 'up to 1000000000' --interval 2e9
refuses 'no argument expected' eth0
refuses 'only for --check' --btf "$out/hooks.bpf.o"
refuses 'expected receive, forward or send' --path up
refuses 'expected 4 or 6' --family 5
refuses 'sockets is none; expected points of' --points ip,sockets
refuses 'nothing is none' --points ip,
refuses 'expected udp, tcp, sctp or a number' --protocol http
refuses 'expected a number from 1 to 65535' --port 65536
for port in 0 -1 -18446744073709551615 18446744073709551617 ' 5' +5 '' 5x 0x5; do
	refuses "--port $port: expected a number from 1 to 65535" --port "$port"
done
refuses 'expected a number from 1 to 255' --protocol 256
refuses 'expected udp, tcp, sctp or a number' --protocol -1
refuses 'expected an IPv4 or IPv6 address' --address 198.18.0
refuses '::1: it is an IPv6 address, and --family is 4' --address ::1 --family 4
refuses '1.2.3.4: it is an IPv4 address, and --family is 6' --family 6 --address 1.2.3.4
for time in 2000s 0ns 0.5ns 5 ms nan infs -1ms; do
	refuses "--late $time: expected a time from 1ns to 1000s with its unit" --late "$time"
done
refuses 'expected a number from 0 to 1048576' --late 1ms --late-rate -1
refuses 'only for --late' --late-rate 0
refuses 'cannot read BTF' --check --btf /nonexistent
refuses 'expected cpu, queue, context or protocol' --by port
# The object's own types are a kernel without tracepoints.
refuses 'no tracepoint netif_receive_skb to hook' --check --btf "$out/hooks.bpf.o"
refuses 'expected hooks, histograms or auto' --source samples
refuses 'expected a number from 1' --room 0
for option in '--device lo' '--netns a' '--path send' '--points ip' '--family 4' '--protocol udp' '--port 9' \
	'--address ::1' '--by cpu' '--late 1us' --kprobes '--room 9' '--check --btf x'; do
	# shellcheck disable=SC2086  # an option and its value
	refuses 'histograms count all packets' --source histograms $option
done
refuses 'only for --late' --source histograms --stop
# Whether it has the file or not, this machine's kernel is none of ours.
refuses 'net_path/histograms' --source histograms --check

# Of NAPI polls a kernel's samples are read if they are as the probe knows them, else hooks are there.
hooks_on_polls() {
	"$out/pathlat" --check --btf "$out/$1.o" | grep -c '^entry:__napi_poll$' || true
}
for kernel in kernel:0 older_kernel:1; do
	[ "$(hooks_on_polls "${kernel%:*}")" = "${kernel#*:}" ] || {
		echo "cli.sh: ${kernel%:*}: NAPI polls are not read as they should be" >&2
		exit 1
	}
done
"$out/pathlat" --version | grep -q '^pathlat [0-9]'
"$out/pathlat" --help | grep -q -- '--seconds'

program=pktsink
refuses '--device is needed' --seconds 1
refuses 'unrecognized option' --device lo --frobnicate
refuses 'requires an argument' --device
refuses 'no argument expected' --device lo lo
refuses 'expected a number above 0' --device lo --seconds 0
refuses '--device nonesuch: no such device here' --device nonesuch
refuses ', or its namespace as --netns' --device nonesuch
refuses '--stamp nonesuch: no such device here' --device lo --stamp nonesuch
refuses '--netns nonesuch: cannot enter it' --device lo --netns nonesuch
refuses '--stamp-netns nonesuch: cannot enter it' --device lo --stamp lo --stamp-netns nonesuch
refuses 'only for --stamp' --device lo --stamp-netns nonesuch
refuses 'expected a time from 1ns to 1000s with its unit' --device lo --late 5
refuses 'expected no more than 4 of them' --device lo --late 1us --late 2us --late 3us --late 4us \
	--late 5us
refuses 'expected a number from 1 to 1048576' --device lo --run 0
refuses '--until: expected more than --from' --device lo --from 2 --until 2
refuses '--last: expected no less than --first' --device lo --first 2 --last 1
refuses 'expected a number from 1 to 4294967295' --device lo --first 0
refuses '--level swift: expected counters, throughput or time' --device lo --level swift
refuses '--restart: expected --level counters or throughput' --device lo --restart
refuses 'are for --level time' --device lo --level counters --late 1us
"$out/pktsink" --version | grep -q '^pktsink [0-9]'
"$out/pktsink" --help | grep -q -- '--stamp-netns'

program=funclat
refuses 'which functions?'
refuses 'which functions?' --seconds 1
refuses 'unrecognized option' udp_rcv --frobnicate
refuses 'requires an argument' udp_rcv --optional
refuses 'expected a number above 0' udp_rcv --seconds 0
refuses 'up to 1000000000' udp_rcv --interval 2e9
refuses 'not an empty one' udp_rcv ''
refuses '--by kprobe: expected fentry, function-graph or auto' udp_rcv --by kprobe
refuses 'udp_rcv: given twice' udp_rcv ip_rcv udp_rcv
refuses 'udp_rcv: given twice' --optional udp_rcv udp_rcv
# shellcheck disable=SC2046  # as many words as functions
refuses 'f65: expected no more than 64 functions' $(seq -f f%g 65)
"$out/funclat" --version | grep -q '^funclat [0-9]'
"$out/funclat" --help | grep -q -- '--optional'
echo "ok cli"
