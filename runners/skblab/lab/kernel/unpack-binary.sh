#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Make a kernel that a guest can boot of the packages /skblab/src/*.deb, in /skblab/out:
#   unpack-binary.sh MODULE...
# bzImage, config, System.map if the packages have a real one, modules/, and initrd, which loads the
# MODULEs that are not built in and goes on as /skblab/run/initrd.sh says. Prints its release, or what
# is lacking.
set -e
out=/skblab/out top=/skblab/out/unpacked
lacking() {
	echo "lacking $1"
	exit 0
}

wanted=$*
mkdir $top
for file in /skblab/src/*.deb; do
	# Into a folder of its own: none writes through another one's links.
	dpkg-deb -x "$file" $out/package
	cp -a $out/package/. $top/
	rm -rf $out/package
done
cd $top
# In older packages lib is a folder of its own.
mkdir -p usr/lib
[ ! -d lib/modules ] || mv lib/modules usr/lib/modules
rm -rf lib
ln -s usr/lib lib
set -- usr/lib/modules/*
[ $# = 1 ] && [ -d "$1" ] && [ ! -L "$1" ] || lacking "one folder of modules"
own=$1 release=${1##*/}
for name in vmlinuz config System.map; do
	[ ! -e "boot/$name-$release" ] || mv "boot/$name-$release" "$own/$name"
	[ ! -L "$own/$name" ] || lacking "$name as a file (it is a link)"
done
[ -f "$own/vmlinuz" ] || lacking "vmlinuz-$release"
[ -f "$own/config" ] || lacking "config-$release"
for option in BLK_DEV_INITRD RD_GZIP DEVTMPFS; do
	grep -qx "CONFIG_$option=y" "$own/config" || lacking "CONFIG_$option=y"
done
mv "$own/vmlinuz" $out/bzImage
mv "$own/config" $out/config
# Debian's has one line, which says where the real one is.
[ ! -f "$own/System.map" ] || [ "$(wc -l <"$own/System.map")" -lt 1000 ] || cp "$own/System.map" $out/
rm -f "$own/System.map"
depmod -b $top "$release"

initrd=/tmp/initrd
mkdir -p $initrd/bin $initrd/modules
cp /skblab/tools/usr/bin/busybox $initrd/bin/
cp /skblab/run/initrd.sh $initrd/init
chmod 755 $initrd/init
number=100 there=
for module in $wanted; do
	modprobe -d $top -S "$release" --show-depends "$module" >/tmp/needs 2>/dev/null || lacking "the module $module"
	while read -r how file _; do
		name=${file##*/}
		name=${name%%.ko*}
		case "$how $there " in builtin*) continue ;; *" $name "*) continue ;; esac
		case $file in
		*.xz) xz -dc "$file" ;;
		*.zst) zstd -qdc "$file" ;;
		*.gz) gzip -dc "$file" ;;
		*) cat "$file" ;;
		esac >"$initrd/modules/$number-$name.ko"
		number=$((number + 1)) there="$there $name"
	done </tmp/needs
done
cd $initrd
find . | LC_ALL=C sort | cpio --quiet --reproducible -o -H newc | gzip -n1 >$out/initrd
mkdir $out/modules
mv "$top/$own" $out/modules/
rm -rf $top
echo "release $release"
