#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# compare-commits.sh LINUX BASE HEAD [OPTION…]
#
# Says what HEAD costs more than the commit of BASE that it is based on, by `skblab compare` in the
# git repository LINUX, and prints the tables in Markdown. OPTION is one of compare's; --quick if
# there is none. What the base costs is measured once and kept in $KEPT. Exit status: 0 if HEAD costs
# no more than the budget allows, 1 if it does, and another one if nothing can be said of it.
set -eu

nothing() {
	echo "compare-commits.sh: $1" >&2
	exit 2
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
skblab=${SKBLAB:-$here/../../../skblab}
kept=${KEPT:-$HOME/.cache/skblab-ci}

[ $# -ge 3 ] || nothing "expected LINUX BASE HEAD [OPTION…]"
linux=$(CDPATH='' cd -- "$1" && pwd) || nothing "$1: no such folder"
head=$(git -C "$linux" rev-parse --verify --quiet "$3^{commit}") || nothing "$3: no such revision"
# Of a branch, and not what others have added to BASE since.
base=$(git -C "$linux" merge-base "$2" "$head") || nothing "$2 and $3 have no common commit here"
shift 3
[ $# -gt 0 ] || set -- --quick
# Another OPTION is another reference.
reference=$kept/$base-$(printf '%s\n' "$@" | sha256sum | cut -c1-8)
new=$reference.$$

# Whatever stops it is nothing that HEAD did: it does not end with 1.
measure_base() {
	rm -rf "$reference" || nothing "$reference: it cannot be removed"
	mkdir -p "$new" || nothing "$kept: it cannot be written to"
	status=0
	SKBLAB_RESULTS=$new "$skblab" compare "git:$linux@$base" "$@" >&2 || status=$?
	# 3 may only say that a workload did not repeat, or is not supported: the others are of use.
	if [ "$status" -eq 3 ] && grep -qs '"state": "finished"' "$new"/compare-*/run.json; then
		status=0
	fi
	if [ "$status" -ne 0 ]; then
		rm -rf "$new"
		[ "$status" -ne 1 ] || status=3
		exit "$status"
	fi
	mv "$new" "$reference" || nothing "$reference: it cannot be written to"
}

compare() {
	"$skblab" compare "$reference"/compare-* "git:$linux@$head" "$@" --markdown
}

if [ -d "$reference" ]; then
	status=0
	compare "$@" || status=$?
	# skblab, its lab root or the compiler may be newer than what was kept.
	[ "$status" -eq 2 ] || exit "$status"
fi
measure_base "$@"
compare "$@"
