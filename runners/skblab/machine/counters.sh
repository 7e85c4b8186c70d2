# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The kernel's own counters as counters.py reads them: sections, each under a line `== name`. Few
# processes: they run on CPUs that are slow, around every trial.

SLAB=/sys/kernel/slab

count() { # namespace|"" device...
	of_all_namespaces
	netns=$1
	shift
	echo '== threads'
	# Of NAPI those of these devices.
	IFS='|'
	devices="$*"
	unset IFS
	# shellcheck disable=SC2013  # no such path has a space
	for comm in $(grep -lE "^(napi/($devices)-|ksoftirqd/|irq/)" /proc/[0-9]*/comm 2>/dev/null); do
		# One that has ended meanwhile has no file any more.
		{ read -r name <"$comm" && read -r ran _ <"${comm%comm}schedstat"; } 2>/dev/null || continue
		echo "$name $ran"
	done
	# Of each device the interrupts of its PCI function, which of virtio is the parent of its own: a
	# handler may be named after anything. And a driver need not have counters of its own.
	# shellcheck disable=SC2016  # the inner shell expands
	${netns:+ip netns exec "$netns"} sh -ec '
		echo "== owners"
		for device; do
			function=
			! cd -P "/sys/class/net/$device/device" 2>/dev/null || function=$PWD
			case ${function##*/} in virtio*) function=${function%/*} ;; esac
			for irq in "$function"/msi_irqs/*; do
				[ ! -e "$irq" ] || echo "$device: ${irq##*/}"
			done
			[ -d "$function/msi_irqs" ] || [ ! -e "$function/irq" ] || {
				read -r irq <"$function/irq" && echo "$device: $irq"
			}
		done
		for device; do
			echo "== driver $device"
			ethtool -S "$device" 2>/dev/null || :
		done
		echo "== qdiscs"
		tc -s qdisc show
		for device; do
			set -- "$@" "/sys/class/net/$device/statistics/"*
			shift
		done
		# A kernel without IPv6 has none of its counters.
		[ ! -e /proc/net/snmp6 ] || set -- /proc/net/snmp6 "$@"
		awk "FNR == 1 {
				split(FILENAME, part, \"/\")
				of_device = part[4] == \"net\"
				section = of_device ? \"device \" part[5] : part[4]
				if (section != last) print \"== \" section
				last = section
			}
			{ print of_device ? part[7] \": \" \$0 : \$0 }" /proc/net/snmp /proc/net/netstat "$@"
	' sh "$@"
}

of_all_namespaces() {
	set -- /proc/interrupts /proc/softirqs /proc/net/softnet_stat
	for file in /sys/devices/system/node/node*/numastat; do
		# Without NUMA nothing matches.
		[ ! -e "$file" ] || set -- "$@" "$file"
	done
	if slab_counted; then
		for cache in "$SLAB"/skbuff_* "$SLAB"/kmalloc-* "$SLAB"/nf_conntrack "$SLAB"/rtable \
			"$SLAB"/ip_dst_cache "$SLAB"/ip6_dst_cache; do
			for file in "$cache"/alloc_*path "$cache"/free_*path "$cache"/*_cpu_sheaf \
				"$cache"/free_rcu_sheaf; do
				# Caches, and ways to allocate, are not the same in all kernels.
				[ ! -e "$file" ] || set -- "$@" "$file"
			done
		done
	fi
	awk 'FNR == 1 {
			parts = split(FILENAME, part, "/")
			name = part[parts]
			sub(/_stat$/, "", name)
			if (name == "numastat") name = "numa " part[parts - 1]
			if (part[parts - 2] == "slab") name = "slab " part[parts - 1] " " name
			print "== " name
		}
		{ print }' "$@"
}

# Whether the kernel counts allocations of slab caches: a cache that every kernel has tells.
slab_counted() {
	[ -e "$SLAB/kmalloc-1k/alloc_fastpath" ]
}

# Whether it counts what not every kernel does, a line each: its name, a tab, and `counted` or why not.
countable() {
	if slab_counted; then
		slab=counted
	elif [ -e "$SLAB" ]; then
		slab='not counted: CONFIG_SLUB_STATS is off'
	else
		slab="not counted: there is no $SLAB"
	fi
	numa='not counted: CONFIG_NUMA is off'
	if [ -e /proc/sys/vm/numa_stat ]; then
		# Read byte by byte, as some shells do, it has no end of its line.
		read -r on </proc/sys/vm/numa_stat || :
		[ "$on" = 1 ] && numa=counted || numa='not counted: vm.numa_stat is 0'
	fi
	printf '%s\t%s\n' 'slab allocations' "$slab" 'NUMA allocations' "$numa"
}
