# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Ports of real machines, taken into network namespaces of the testbed's own for as long as the shell
# lives that took them, and given back. In a namespace nothing of the machine's own is in the way or
# in danger: addresses, routes, sysctls and firewall rules of the testbed are there, and go with it.
#
#   tester generator:g0 ─ router:r0  router:r1 ─ tester sink:s0     through the router
#   tester generator:c0 ──────────────────────── tester sink:s1     the tester alone, if so joined
#
# It goes on from net.sh, generator.sh, tester.sh and router.sh.

export IN_ROUTER="$IN/router"
# Who has the ports of this machine, and what was taken: it goes with a reboot, as they come back by one.
LOCK=/run/skblab-sweep.lock TAKEN=/run/skblab-sweep.taken

refuse() { # why
	echo "$1" >&2
	exit 1
}

# Lock 9 is held by the shell that has the ports, and goes with it.
alone() { # who
	[ "$(id -u)" = 0 ] || refuse "it takes root, and this is $(id -un)"
	for tool in ip tc ethtool awk chrt find flock nsenter pgrep pkill sysctl timeout; do
		command -v "$tool" >/dev/null || refuse "there is no $tool; install it"
	done
	exec 9>>"$LOCK"
	if ! flock -n 9; then
		held=$(cat "$LOCK") wait=0
		if [ "${held% shell *}" = "$1" ] && grep -qs "$LOCK" "/proc/${held##* }/cmdline"; then
			# One of ours whose connection broke, and that has not noticed: what it waits for ends.
			pkill -P "${held##* }" || :
			wait=20
		elif [ -z "$held" ]; then
			# It ends just now, or has not yet said who it is.
			wait=5
		fi
		flock -w "$wait" 9 || refuse "another sweep has this machine: $(cat "$LOCK")"
	fi
	echo "$1 shell $$" >"$LOCK"
	trap 'give_all_back $?' EXIT
	# Of a broken pipe, too: not every shell would come to its end otherwise.
	trap 'exit 1' HUP INT PIPE TERM
	# Of a shell that was killed.
	back || refuse "what a killed sweep took cannot be given back; mend it, and remove $TAKEN"
}

# The port's addresses but for those that the kernel makes anew when it comes up: by addr_gen_mode of
# the port's own address (RFC 4291, appendix A), or of a secret (RFC 7217).
addresses() { # port
	case $(cat "/proc/sys/net/ipv6/conf/$1/addr_gen_mode" 2>/dev/null) in
	0) anew=$(modified_eui64 "$1") ;;
	2 | 3) anew=stable-privacy ;;
	*) anew=none ;;
	esac
	ip -o address show dev "$1" | awk -v anew=" $anew " '
		!(index($0, " fe80:") && index($0, anew)) { print $4 }'
}

modified_eui64() { # port
	IFS=: read -r a b c d e f <"/sys/class/net/$1/address"
	printf 'fe80::%x:%x:%x:%x/64\n' \
		$((0x$a$b ^ 0x200)) "0x${c}ff" "0xfe$d" "0x$e$f" | sed 's/::0:/::/'
}

# What a port is used for by others, in words; nothing if it is free.
use() { # port
	found=$(addresses "$1" | head -n 1)
	[ -z "$found" ] || echo "it has the address $found; remove it with: ip address flush dev $1"
	found=$(ip neigh show dev "$1" nud permanent && ip neigh show proxy dev "$1")
	found=$(echo "$found" | awk '{ print $1; exit }')
	[ -z "$found" ] || echo "it has the neighbour $found of its own, which would be lost; see: ip neigh"
	[ ! -e "/sys/class/net/$1/master" ] || echo "it is part of another device; see: ip link show $1"
	for upper in "/sys/class/net/$1"/upper_*; do
		[ ! -e "$upper" ] || echo "${upper##*/upper_} is upon it"
	done
	found=$(ip route show dev "$1" && ip -6 route show dev "$1")
	found=$(echo "$found" | grep -v '^fe80::/64 \|^multicast ' | head -n 1)
	[ -z "$found" ] || echo "a route leads there: $found"
	# The kernel's own have no handle. A change of namespace takes them all.
	found=$(tc qdisc show dev "$1" | awk '$3 != "0:" { print $2, $3; exit }')
	[ -z "$found" ] || echo "it has the qdisc $found, which would be lost; see: tc qdisc show dev $1"
	case " ${SSH_CONNECTION:-} " in *"%$1 "*) echo "this connection comes by it" ;; esac
}

room() { # namespace
	! ip netns list | grep -qE "^$1( |\$)" || refuse "there is a network namespace $1 already"
	echo "netns $1" >>"$TAKEN"
	quiet "$1"
}

# The port's entries in net.ipv4 and net.ipv6, a line each, FILE:VALUE. A change of namespace has them be
# the default. What has no value to be read is no setting.
entries() { # port
	for folder in ipv4/conf ipv6/conf ipv4/neigh ipv6/neigh; do
		grep -s . "/proc/sys/net/$folder/$1"/* || :
	done
}

take() { # port namespace name
	[ -e "/sys/class/net/$1" ] || refuse "there is no network device $1; there are: $(
		cd /sys/class/net && echo *
	)"
	used=$(use "$1" | head -n 1)
	[ -z "$used" ] || refuse "$1 is in use: $used"
	up=$(ip -o link show up dev "$1")
	case $up in
	*[\<,]LOWER_UP[,\>]*) up=linked ;;
	?*) up=up ;;
	esac
	entries "$1" >"$TAKEN.$1"
	echo "port $1 $2 $3 $up" >>"$TAKEN"
	ip link set "$1" netns "$2" name "$3"
	ip -n "$2" link set "$3" up
}

has() { # namespace device
	ip -n "$1" link show "$2" >/dev/null 2>&1
}

# Gives back what is in TAKEN; not 0 if something cannot be. The kernel's own way of a namespace that
# goes would give ports back by the names that they had in it.
back() {
	wrong=0
	[ -e "$TAKEN" ] || return 0
	while read -r kind port netns name up; do
		[ "$kind" = port ] || continue
		if has "$netns" "$name"; then
			if [ -e "/sys/class/net/$port" ]; then
				echo "another device is $port by now, and the one that was is $name in $netns" >&2
				wrong=1
				continue
			fi
			ip -n "$netns" link set "$name" netns $$ name "$port" || wrong=1
		elif [ ! -e "/sys/class/net/$port" ] && [ ! -e "/run/netns/$netns" ]; then
			echo "the namespace $netns has gone, and $port with it: it may be back as $name;" \
				"then: ip link set $name down name $port" >&2
			wrong=1
			continue
		elif [ ! -e "/sys/class/net/$port" ]; then
			echo "$port has gone from this machine" >&2
			continue
		fi
		set_again "$port" || wrong=1
		[ -z "$up" ] || ip link set "$port" up || wrong=1
	done <"$TAKEN"
	# The MTU of IPv6 is set anew by a link that comes up, which is later than its port's being up.
	left=100
	while read -r kind port netns name up; do
		[ "$kind" = port ] && [ -n "$up" ] && [ -e "/sys/class/net/$port" ] || continue
		# What is of the port's name is another device.
		! has "$netns" "$name" || continue
		[ "$up" != linked ] || until_linked "$port" || :
		set_again "$port" || wrong=1
	done <"$TAKEN"
	[ "$wrong" = 0 ] || return 1
	while read -r kind netns _; do
		[ "$kind" != netns ] || [ ! -e "/run/netns/$netns" ] || ip netns delete "$netns" || wrong=1
	done <"$TAKEN"
	[ "$wrong" != 0 ] || rm -f "$TAKEN" "$TAKEN".* /run/skblab-pktgen /run/skblab-gives-way /run/skblab-step \
		/run/skblab-asked /run/skblab-shared
	return "$wrong"
}

# A port takes seconds until its link is up. By ip, which waits for what a change of link still has the
# kernel do, as a file of /sys does not; of a driver that tells no links the state is UNKNOWN. `left`
# are the tenths of a second that there are for all of them.
until_linked() { # port [namespace]
	until ip ${2:+-n "$2"} -o link show dev "$1" | grep -q '[<,]LOWER_UP[,>].* state U[PN]'; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || return 1
		sleep 0.1
	done
}

# What differs only, as some entries cannot be written; in rounds, as some wait for others: addr_gen_mode
# cannot be 2 before there is a stable_secret.
set_again() { # port
	[ -e "$TAKEN.$1" ] || return 0
	before=
	while differing=$(entries "$1" | grep -vxFf - "$TAKEN.$1"); do
		if [ "$differing" = "$before" ]; then
			echo "$1 does not take back: $(echo "$differing" | tr '\n' ' ')" >&2
			return 1
		fi
		before=$differing
		echo "$differing" | while IFS=: read -r file value; do
			(echo "$value" >"$file") 2>/dev/null || :
		done
	done
}

give_all_back() { # exit status
	trap '' HUP INT PIPE TERM
	ended=$1
	back || ended=1
	: >"$LOCK"
	exit "$ended"
}

# Prints NAME_MAC=ADDRESS for each port, as the other machine has to know it, and on the same line
# how many CPUs there are, which of them are near the first port, and how many NUMA nodes.
facts() { # name:namespace...
	for one; do
		address=$(ip netns exec "${one#*:}" cat "/sys/class/net/${one%:*}/address")
		printf '%s_MAC=%s ' "$(echo "${one%:*}" | tr "[:lower:]" "[:upper:]")" "$address"
	done
	near=$(ip netns exec "${1#*:}" cat "/sys/class/net/${1%:*}/device/local_cpulist" 2>/dev/null) || :
	nodes=$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' 2>/dev/null | wc -l)
	echo "cpus=$(grep -c ^processor /proc/cpuinfo) near=$near nodes=$nodes"
}

take_tester() { # who generator sink [loop loop]
	alone "$1"
	room generator
	room sink
	take "$2" generator g0
	take "$3" sink s0
	sink s0
	set -- "${4:-}" "${5:-}"
	if [ -n "$1" ]; then
		take "$1" generator c0
		take "$2" sink s1
		sink s1
	fi
	# Where there is none, skblab-traffic sends.
	if [ -e /proc/net/pktgen ] || modprobe -q pktgen 2>/dev/null; then has=yes; else has=no; fi
	printf 'pktgen=%s ' "$has"
	facts g0:generator s0:sink ${1:+c0:generator s1:sink}
}

# A tester whose ports another driver than the kernel's has, such as DPDK's: nobody else sweeps with it.
have_tester() { # who
	alone "$1"
	echo "pktgen=no near= cpus=$(grep -c ^processor /proc/cpuinfo)"
}

take_router() { # who in out
	alone "$1"
	room router
	take "$2" router r0
	take "$3" router r1
	facts r0:router r1:router
}

linked() { # name:namespace...
	left=100
	for one; do
		until_linked "${one%:*}" "${one#*:}" ||
			refuse "${one%:*} has no link after 10 s: is its cable in?"
	done
}
