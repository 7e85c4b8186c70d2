# SPDX-License-Identifier: GPL-2.0-or-later
# What every picture begins with. The page gives these colours, found by their value, its own
# shades for light and dark: a colour changed here is changed in base/pictures.py too.

ink = 0x1b1f24
muted = 0x66707a
rule = 0xdfe3e8
set encoding utf8
set datafile missing "?"
