#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Install Debian packages, for scripts that source this file.

# Tell what this machine lacks, and end, if this user cannot install these packages.
can_install() { # package ...
	if [ "$(id -u)" != 0 ]; then
		echo "skblab: this machine lacks: $*; as root, run: apt-get install $*" >&2
		exit 2
	fi
	if ! command -v apt-get >/dev/null; then
		echo "skblab: this machine lacks: $*; install them with its package manager" >&2
		exit 2
	fi
}

# Install packages, or tell why not, and end.
install_packages() { # package ...
	echo "skblab: installing $*" >&2
	log=$(mktemp)
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
		echo "skblab: the packages could not be installed: $(grep '^E:' "$log" | head -n 1)" >&2
		echo "skblab: check the network and apt's sources, then run make again; whole log: $log" >&2
		exit 2
	fi
	rm -f "$log"
}
