# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Rules for packets in a table, or with iptables a chain, of our own. The value is kept with them as
# a comment. Rules match nothing that is sent: sources of 192.0.2.0/24 (RFC 5737), a port each.
# A text of the user's has its own tables. Our table then has only the comment, and what there was
# before is in a file.

# In a comment: iptables had no table before it.
MADE=', with its table'

# Keeps what there was before a text. A machine has one sweep at a time.
KEPT=/run/skblab-rules

# Prints what tells the rules from others: without ours, counters, and elements of sets, which rules
# themselves may add.
told() {
	nft -s -t list ruleset | awk '
		/^table / { ours = $0 == "table inet skblab {" }
		!ours
	' | sha256sum | cut -c 1-12
}

# Prints `nft COUNT VALUE` of our table, if there is one, and our chain of iptables. Of ten thousand rules
# the text takes a third of the time that JSON does, and to write it to a file a third of to a pipe.
show() {
	listing=/run/skblab-netfilter
	if command -v nft >/dev/null; then nft list ruleset; fi >"$listing"
	awk '
		/^table / { ours = $0 == "table inet skblab {" }
		ours && /^\tcomment "/ { sub(/^\tcomment "/, ""); sub(/"$/, ""); value = $0 }
		ours && /^\t[a-z]/ { kind = $1 }
		ours && kind == "chain" && /^\t\t/ && $1 != "type" { count++ }
		ours && kind == "set" { count += gsub(/ \. [0-9]/, "") }
		END { if (value) print "nft", count + 0, value }
	' "$listing" >"$listing.ours"
	if read -r _ _ what value which made <"$listing.ours" && [ "$what" = text ]; then
		[ "$made" = "$(told)" ] && made='as made' || made=changed
		echo "text $value $which $made"
	else
		cat "$listing.ours"
	fi
	if grep -qs 'chain SKBLAB' "$listing" || [ -s /proc/net/ip_tables_names ]; then
		for kind in filter nat; do
			iptables -t "$kind" -S SKBLAB 2>/dev/null || :
		done
	fi
	rm "$listing" "$listing.ours"
	[ -n "$(forgetting)" ] || echo 'forgets nothing'
}

clear() {
	if [ -e "$KEPT" ]; then
		# Without our mark the text was not loaded, or its namespace is gone and this is another.
		if nft list table inet skblab 2>/dev/null | grep -q 'comment "text '; then
			{
				echo 'flush ruleset'
				cat "$KEPT"
			} | nft -f -
		fi
		rm "$KEPT"
	fi
	nft delete table inet skblab 2>/dev/null || :
	clear_chain filter FORWARD INPUT
	clear_chain nat POSTROUTING
	forget
}

# Prints what there is to forget connections with.
forgetting() {
	# Without our function of that name.
	(unset -f conntrack && command -v conntrack) || command -v python3 || :
}

# Connections outlive the rules that had them tracked: what comes next would find them translated, or
# offloaded.
forget() {
	tracked=/proc/sys/net/netfilter/nf_conntrack_count
	[ -e "$tracked" ] && [ "$(cat "$tracked")" != 0 ] || return 0
	case $(forgetting) in
	*conntrack)
		said=$(env conntrack -F 2>&1) || {
			echo "$said" >&2
			return 1
		}
		;;
	*python3)
		# IPCTNL_MSG_CT_DELETE without an address: all of them.
		python3 -c '
import os, socket, struct
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.send(struct.pack("=IHHIIBBH", 20, 0x102, 5, 1, 0, 0, 0, 0))
error = struct.unpack_from("=i", netlink.recv(4096), 16)[0]
raise SystemExit(os.strerror(-error) if error else 0)'
		;;
	esac
	# With neither none of our rules tracked any.
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

# Loads the text that comes by standard input, and keeps what there was.
load() { # name key
	nft list ruleset >"$KEPT.new"
	{
		echo 'flush ruleset'
		cat "$KEPT.new"
	} | nft -c -f - 2>/dev/null || {
		rm "$KEPT.new"
		echo "$1: the rules that are there already cannot be put back by nft (of iptables?)" >&2
		return 1
	}
	{
		cat
		# With the text or not at all, and behind it: it may begin with a flush of all.
		mark "$1" "$2" -
	} >"$KEPT.text"
	mv "$KEPT.new" "$KEPT"
	if ! nft -f "$KEPT.text" 2>"$KEPT.said"; then
		# /run/…:LINE:COLUMNS: Error: what is wrong
		awk -v name="$1" '
			match($0, /:[0-9]+:[0-9-]+: Error: /) && !said {
				split(substr($0, RSTART + 1), at, ":")
				said = name " line " at[1] ": " substr($0, RSTART + RLENGTH)
			}
			{ last = $0 }
			END { print said ? said : name ": " last }
		' "$KEPT.said" >&2
		rm "$KEPT.text" "$KEPT.said" "$KEPT"
		return 1
	fi
	rm "$KEPT.text" "$KEPT.said"
	{
		echo 'delete table inet skblab'
		mark "$1" "$2" "$(told)"
	} | nft -f -
}

mark() { # name key what-the-rules-are-told-by
	echo "table inet skblab { comment \"text $1 $2 $3\"; }"
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
