#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Debian's packages of finished kernels:
#   fetch-binary.sh SUITE-OF-THE-ROOT OLDER list                    all there are
#   fetch-binary.sh SUITE-OF-THE-ROOT OLDER needs PACKAGE           one, and what it depends on
#   fetch-binary.sh SUITE-OF-THE-ROOT OLDER get PACKAGE=VERSION...  into /skblab/out
# It runs in the lab root, which stays as it is. The mirror is the root's own, with its backports and
# the release before; apt checks the signatures by the root's keys. apt's lists are in
# /skblab/out/lists: whoever asks several things gives the same folder. A suite that the mirror has not
# is left out.
set -e
here=$1
older=$2
does=$3
shift 3
wanted=$*

mkdir -p /skblab/out/lists/partial /tmp/cache/archives/partial
{
	cat /etc/apt/sources.list
	sed -n "s/^\(deb .*\) $here /\1 $here-backports /p" /etc/apt/sources.list
	sed -n "s/^\(deb .*\) $here\([ -]\)/\1 $older\2/p" /etc/apt/sources.list
} >/tmp/sources.list

set -- -qq -o Dir::State::lists=/skblab/out/lists -o Dir::Cache=/tmp/cache -o Debug::NoLocking=1 \
	-o Dir::Etc::sourcelist=/tmp/sources.list -o Dir::Etc::sourceparts=/dev/null \
	-o APT::Sandbox::User=root -o Acquire::Languages=none
if [ ! -e /skblab/out/lists/done ]; then
	apt-get "$@" update
	: >/skblab/out/lists/done
fi
# A line for each, the oldest version first: "offer", version, package, SHA-256, what it depends on.
told() {
	xargs -r apt-cache "$@" --no-all-versions show | awk -v OFS='\t' '
		/^Package: / { package = $2 }
		/^Version: / { version = $2 }
		/^Depends: / { depends = substr($0, 10) }
		/^SHA256: / { digest = $2 }
		/^$/ { print "offer", version, package, digest, depends; depends = "" }' | sort -V
}
case $does in
list) apt-cache "$@" pkgnames linux-image- | grep -E '^linux-image-[0-9].*-amd64$' | told "$@" ;;
needs) echo "$wanted" | told "$@" ;;
get)
	cd /skblab/out
	# shellcheck disable=SC2086 # names of packages
	apt-get "$@" download $wanted
	;;
esac
