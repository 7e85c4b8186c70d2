# SPDX-License-Identifier: GPL-2.0-or-later
# What every picture ends with: NAME.svg, NAME-narrow.svg for a phone, and NAME.png.

width = 880.0
height = 1.0 * wide_height
narrow = 0
set terminal svg size 880, wide_height noenhanced font "sans-serif,13" background "#ffffff"
set output name.".svg"
load $draw
set output

reset
width = 400.0
height = 1.0 * narrow_height
narrow = 1
set terminal svg size 400, narrow_height noenhanced font "sans-serif,13" background "#ffffff"
set output name."-narrow.svg"
load $draw
set output

reset
width = 880.0
height = 1.0 * wide_height
narrow = 0
set terminal pngcairo size 1760, 2 * wide_height noenhanced font "sans-serif,13" fontscale 2 \
    linewidth 2 pointscale 3 background "#ffffff"
set output name.".png"
load $draw
set output
