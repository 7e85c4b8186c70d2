# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Rules for packets in a table, or with iptables a chain, of our own. The value is kept with them as
# a comment. Rules match nothing that is sent: sources of 192.0.2.0/24 (RFC 5737), a port each.

# In a comment: iptables had no table before it.
MADE=', with its table'

show() {
	nft -j list table inet skblab 2>/dev/null || echo '{}'
	for kind in filter nat; do
		iptables -t "$kind" -S SKBLAB 2>/dev/null || :
	done
}

clear() {
	nft delete table inet skblab 2>/dev/null || :
	clear_chain filter FORWARD INPUT
	clear_chain nat POSTROUTING
}

clear_chain() { # table HOOK…
	kind=$1
	shift
	chain=$(iptables -t "$kind" -S SKBLAB 2>/dev/null) || return 0
	for hook; do
		iptables -t "$kind" -D "$hook" -j SKBLAB 2>/dev/null || :
	done
	iptables -t "$kind" -F SKBLAB
	iptables -t "$kind" -X SKBLAB
	# An empty table is still in every packet's way. It goes if it came with our chain, and nobody
	# has put anything into it since.
	case $chain in
	*"$MADE"*) iptables -t "$kind" -S | grep -qv '^-P ' || nft delete table ip "$kind" ;;
	esac
}

# The table with its comment, around what comes by standard input.
table() { # value
	{
		echo "table inet skblab { comment \"$1\";"
		cat
		echo '}'
	} | nft -f -
}

nft_list() { # hook count
	echo "chain rules { type filter hook $1 priority 0;"
	seq "$2" | awk '{ printf "ip saddr 192.0.2.%d udp sport %d drop\n", $1 % 254 + 1, $1 }'
	echo '}'
}

nft_set() { # hook count
	echo 'set sources { type ipv4_addr . inet_service; elements = {'
	seq "$2" | awk '{ printf "%s192.0.2.%d . %d", (NR > 1 ? ", " : ""), $1 % 254 + 1, $1 }'
	echo '}; }'
	echo "chain rules { type filter hook $1 priority 0;"
	echo 'ip saddr . udp sport @sources drop; }'
}

iptables_list() { # CHAIN count value
	made=
	nft list table ip filter >/dev/null 2>&1 || made=$MADE
	{
		echo '*filter'
		echo ':SKBLAB - [0:0]'
		echo "-A $1 -j SKBLAB"
		seq "$2" | awk -v value="$3$made" '{
			printf "-A SKBLAB -s 192.0.2.%d/32 -p udp -m udp --sport %d ", $1 % 254 + 1, $1
			printf "-m comment --comment \"%s\" -j DROP\n", value
		}'
		echo COMMIT
	} | iptables-restore --noflush
}

iptables_masquerade() { # device value
	made=
	nft list table ip nat >/dev/null 2>&1 || made=$MADE
	iptables-restore --noflush <<-END
		*nat
		:SKBLAB - [0:0]
		-A POSTROUTING -j SKBLAB
		-A SKBLAB -o $1 -m comment --comment "$2, of skblab$made" -j MASQUERADE
		COMMIT
	END
}

conntrack() {
	echo 'chain forward { type filter hook forward priority 0;'
	echo 'ct state established,related accept; ct state new accept; }'
}

flowtable() { # device, device ...
	echo "flowtable flows { hook ingress priority 0; devices = { $1 }; }"
	echo 'chain forward { type filter hook forward priority 0;'
	echo 'meta l4proto { tcp, udp } flow add @flows; }'
}

masquerade() { # device
	echo 'chain postrouting { type nat hook postrouting priority 100;'
	echo "oifname \"$1\" masquerade; }"
}
