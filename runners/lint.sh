#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The linters that are not Python's own: shell and licence lines here, Rust and C in the lab root.
# usage: lint.sh VENV
set -eu
venv=$1
cd "$(dirname "$0")/.."

# Every file names its licence in its first lines, but for formats without comments, expected
# output word for word, and patches, whose licence is that of the files they change (COPYING).
bare='^(LICENSES/|Cargo\.lock$|patches/.*/(series|.*\.patch|0000-cover-letter.*)$|tests/.*/golden/'
bare="$bare"'|.*\.(json|jsonl|parquet|png|svg)$)'
status=0
for file in $(git ls-files | grep -Ev "$bare"); do
	[ -f "$file" ] || continue
	if ! head -n 40 "$file" | grep -q 'SPDX-License-Identifier:'; then
		echo "$file: no SPDX-License-Identifier in its first lines" >&2
		status=1
	fi
done

git ls-files '*.sh' skblab .ci/run | xargs "$venv/bin/shellcheck" || status=1
./skblab lint || status=1
exit "$status"
