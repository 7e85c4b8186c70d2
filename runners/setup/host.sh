#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Install the few packages that the host itself needs; everything else is in the lab root.
set -eu
# shellcheck source=runners/setup/packages.sh
. "$(dirname "$0")/packages.sh"

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
# shellcheck disable=SC2086  # a list of packages
can_install $missing
# shellcheck disable=SC2086
install_packages $missing
