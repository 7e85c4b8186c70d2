# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The generator and the sink, in namespaces of these names of one kernel: g0 and s0 are behind the
# device under test, c0 and s1 are joined without one. It goes on from net.sh and generator.sh.

# Addresses of the ports that packets go to: the router's first, and that of the tester's loop.
R0_MAC=02:00:00:00:00:02 S1_MAC=02:00:00:00:00:06

# Where instructions are counted, a thread of the router's, such as of NAPI, gets the generator's CPU as
# soon as it has work: the ring between has room for 256 packets, and the generator would send more in
# its turn, all of them lost. A kernel that preempts lazily (7.2) would let it, until the next tick.
give_way() {
	[ ! -e /run/skblab-gives-way ] || return 0
	read -r words </proc/cmdline
	case " $words " in *" skblab.exact=1 "*) ;; *) return 0 ;; esac
	for thread in $(pgrep "^kpktgend_"); do
		chrt --idle --pid 0 "$thread"
		: >/run/skblab-gives-way
	done
	# Unless that is what was asked for.
	case " $words" in *" preempt="*) return 0 ;; esac
	preempt=/sys/kernel/debug/sched/preempt
	if grep -qs "(lazy)" "$preempt"; then echo full >"$preempt"; fi
}

# Have `generate` do what the words say, but for `device` and `mac`, through the router or the tester
# alone. Prints what came of it: sent, refused, elapsed microseconds, what came to the sink, and what
# that has counted in all.
send() { # whole|tester name=value...
	case $1 in
	whole) far=s0 port="device=g0 mac=$R0_MAC" ;;
	tester) far=s1 port="device=c0 mac=$S1_MAC" ;;
	esac
	shift
	give_way
	before=$(came "$far")
	# shellcheck disable=SC2086  # words
	told=$(generate $port "$@")
	after=$(settled "$far" $((before + ${told%% *})))
	echo "$told $((after - before)) $after"
}
