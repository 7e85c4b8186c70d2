#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Install the skblab command of this clone, its man pages and its completion; or remove them.
# Only the command's starter is copied: the lab needs the clone (patches, probes, configurations).
# usage: PREFIX=/usr/local DESTDIR= install.sh install|uninstall VENV
set -eu
tree=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
prefix=${PREFIX:-/usr/local}
case $prefix in
/*) ;;
*)
	echo "skblab: PREFIX=$prefix is no absolute path; type one, such as PREFIX=\$HOME/.local" >&2
	exit 2
	;;
esac
share=${DESTDIR:-}$prefix/share
starter=${DESTDIR:-}$prefix/bin/skblab
# What starters of ours have in a line of their own: nobody else's is overwritten or removed.
mark='# Made by make install of skblab.'

if [ -e "$starter" ] && ! grep -qxF "$mark" "$starter"; then
	echo "skblab: $starter is not ours and stays; choose another PREFIX" >&2
	exit 2
fi

uninstall() {
	rm -f "$starter" "$share/man/man1/skblab.1" "$share"/man/man1/skblab-*.1 \
		"$share/bash-completion/completions/skblab" "$share/zsh/site-functions/_skblab" \
		"$share/fish/vendor_completions.d/skblab.fish"
}

case ${1:-} in
uninstall)
	uninstall
	echo "removed skblab, its man pages and its completion from ${DESTDIR:-}$prefix"
	;;
install)
	if ! mkdir -p "$(dirname "$starter")" "$share" 2>/dev/null ||
		! [ -w "$(dirname "$starter")" ] || ! [ -w "$share" ]; then
		echo "skblab: you may not write to ${DESTDIR:-}$prefix;" \
			"type: make install PREFIX=\$HOME/.local, or run it as root" >&2
		exit 2
	fi
	quoted=$(printf '%s' "$tree" | sed "s/'/'\\\\''/g")
	pages=$(mktemp -d)
	made=$(mktemp "$starter.XXXXXX")
	trap 'rm -rf "$made" "$pages"' EXIT
	if ! SKBLAB_TREE=$tree "$2/bin/python" -m skblab.manual "$pages" >/dev/null; then
		echo "skblab: the man pages cannot be made; what was installed before is still there" >&2
		exit 1
	fi
	# Pages of commands that are no more go, too.
	uninstall
	mkdir -p "$share"
	cp -R "$pages/." "$share/"
	cat >"$made" <<-END
		#!/bin/sh
		# SPDX-License-Identifier: GPL-2.0-or-later
		$mark
		tree='$quoted'
		if [ ! -x "\$tree/skblab" ]; then
			echo "skblab: the clone \$tree is gone; run make install in another one" >&2
			exit 2
		fi
		SKBLAB_RESULTS=\${SKBLAB_RESULTS:-\$PWD/results} exec "\$tree/skblab" "\$@"
	END
	chmod 755 "$made"
	mv "$made" "$starter"
	echo "installed $starter, which runs $tree; man skblab; completion for bash, zsh and fish"
	case ":$PATH:" in
	*":$prefix/bin:"*) ;;
	*) [ -n "${DESTDIR:-}" ] || echo "$prefix/bin is not in your PATH yet" ;;
	esac
	;;
*)
	echo "usage: install.sh install|uninstall VENV" >&2
	exit 2
	;;
esac
