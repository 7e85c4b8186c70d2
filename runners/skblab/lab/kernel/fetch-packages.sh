#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Fetch packages of a suite and unpack what they have in /usr/src below /skblab/out:
#   fetch-packages.sh SUITE-OF-THE-ROOT SUITE PACKAGE...
# It runs in the lab root, which stays as it is. The mirror is the root's own; apt checks the
# signature of what it gets by the root's keys. A line for each package says what was unpacked.
set -e
here=$1
suite=$2
shift 2
packages=$*

mkdir -p /tmp/lists/partial /tmp/cache/archives/partial
sed -n "s/^\(deb .*\) $here /\1 $suite /p" /etc/apt/sources.list >/tmp/suite.list
[ -s /tmp/suite.list ] || { echo "error: no source of $here in the lab root's sources.list"; exit 1; }

set -- -qq -o Dir::State::lists=/tmp/lists -o Dir::Cache=/tmp/cache -o Debug::NoLocking=1 \
	-o Dir::Etc::sourcelist=/tmp/suite.list -o Dir::Etc::sourceparts=/dev/null \
	-o APT::Sandbox::User=root -o APT::Update::Error-Mode=any
apt-get "$@" update
cd /skblab/out
# shellcheck disable=SC2086 # names of packages
apt-get "$@" download $packages

for file in *.deb; do
	dpkg-deb -x "$file" unpacked
	echo "unpacked $(dpkg-deb -f "$file" Package)" \
		"$(dpkg-deb -f "$file" Version)" \
		"$(sha256sum <"$file" | cut -d ' ' -f 1)"
	rm "$file"
done
mkdir usr
mv unpacked/usr/src usr/src
rm -r unpacked
