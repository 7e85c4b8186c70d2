#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Every linter: Python's, shell and licence lines here, Rust and C in the lab root. They need nothing
# of each other, so the two that take long run beside the rest; all are run, whichever fails.
# usage: lint.sh VENV
set -eu
venv=$1
cd "$(dirname "$0")/.."
python='runners analysis tests'

./skblab lint &
native=$!
"$venv/bin/mypy" &
types=$!

# Every file names its licence in its first lines, but for formats without comments, expected
# output, fuzzing seeds and what tools print word for word, and patches, whose licence is that of
# the files they change (COPYING).
bare='^(LICENSES/|Cargo\.lock$|patches/.*/(series|.*\.patch|0000-cover-letter.*)$|tests/.*/golden/'
bare="$bare"'|tests/fuzz/|tests/analysis/pcm/.*\.csv$|docs/pictures/.*\.dat$'
bare="$bare"'|.*\.(json|jsonl|parquet|png|svg|xz)$)'
status=0
unnamed=$(git ls-files | grep -Ev "$bare" | while read -r file; do
	[ ! -f "$file" ] || printf '%s\0' "$file"
done | xargs -0 awk '
	FNR <= 40 && /SPDX-License-Identifier:/ { named[FILENAME] = 1 }
	END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in named)) print ARGV[i] }')
for file in $unnamed; do
	echo "$file: no SPDX-License-Identifier in its first lines" >&2
	status=1
done

# shellcheck disable=SC2086 # Several folders.
"$venv/bin/ruff" check $python || status=1
# shellcheck disable=SC2086
"$venv/bin/ruff" format --check $python || status=1
git ls-files '*.sh' skblab .ci/run | xargs "$venv/bin/shellcheck" || status=1
wait "$types" || status=1
wait "$native" || status=1
exit "$status"
