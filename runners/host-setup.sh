#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Install the few packages that the host itself needs; everything else is in the lab root.
set -eu

missing=
need() { # package, shell test that it is there
	if ! sh -c "$2" >/dev/null 2>&1; then missing="$missing $1"; fi
}
need mmdebstrap 'command -v mmdebstrap'
need debian-archive-keyring 'test -e /usr/share/keyrings/debian-archive-keyring.gpg'
need util-linux 'command -v setpriv && command -v unshare'
need ca-certificates 'test -s /etc/ssl/certs/ca-certificates.crt'
python='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
need 'python3 python3-venv' "python3 -c '$python' || /usr/bin/python3 -c '$python'"

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "skblab: this machine lacks:$missing; as root, run: apt-get install$missing" >&2
	exit 2
fi
if ! command -v apt-get >/dev/null; then
	echo "skblab: this machine lacks:$missing; install them with its package manager" >&2
	exit 2
fi
echo "skblab: installing$missing" >&2
log=$(mktemp)
# shellcheck disable=SC2086  # a list of packages
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
	apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	echo "skblab: the packages could not be installed: $(grep '^E:' "$log" | head -n 1)" >&2
	echo "skblab: check the network and apt's sources, then run make again; whole log: $log" >&2
	exit 2
fi
rm -f "$log"
