# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Which functions a kernel has where, for who counts its instructions: see functions/symbols.py.

# Those that have no place in System.map (`loaded`), with some that have one, to see that it is this
# kernel's; or all.
list_symbols() { # loaded|all
	case $1 in
	loaded)
		grep -e ']$' -e ' [Tt] _stext$' -e ' [Tt] _etext$' -e ' [Tt] ip_rcv$' -e ' [Tt] udp_recvmsg$' \
			-e ' [Tt] napi_complete_done$' /proc/kallsyms || :
		;;
	all) cat /proc/kallsyms ;;
	esac
}
