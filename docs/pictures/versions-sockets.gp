# SPDX-License-Identifier: GPL-2.0-or-later
# Instructions per packet or unit, relative to debian:6.1. Draw it again: gnuplot versions-sockets.gp
reset session
name = 'versions-sockets'
data = 'versions-sockets.dat'
rows = 2
series = 3
baseline = 'debian:6.1'
narrow_baseline = 'debian:6.1'
array titles[3] = ['debian:6.12', 'debian:7.2', 'debian:7.3']
array narrow_titles[3] = ['debian:6.12', 'debian:7.2', 'debian:7.3']
legend_rows = 1
array colours[3] = [749209, 13721610, 2789207]
array marks[3] = [7, 7, 7]
low = -0.7004305868144581
high = 6.381450147296396
ticks = '"0 %%" 0, "2 %%" 2, "4 %%" 4, "6 %%" 6'

# What every picture begins with. The page gives these colours, found by their value, its own
# shades for light and dark: a colour changed here is changed in base/pictures.py too.

ink = 0x1b1f24
muted = 0x66707a
rule = 0xdfe3e8
set encoding utf8
set datafile missing "?"

# What each workload costs on further sides, in per cent more than on the first.
#
# Set above: data, name, rows, series (sides beside the first), titles, narrow_titles, legend_rows,
# colours, marks, low, high, ticks, baseline and narrow_baseline (the first side).
# Columns of the data: 1 workload, 2 and so on per cent beside the first side, in the order of the sides.

wide_row = 22
narrow_row = 34
foot = 34
top = 36 + 24 * legend_rows
narrow_top = 36 + 24 * series
wide_height = top + rows * wide_row + foot
narrow_height = narrow_top + rows * narrow_row + foot
y(i) = rows - i - (narrow ? 0.7 : 0.5)
# Of sides that cost the same all are seen: the later ones are smaller.
size(i) = 1.2 - 0.6 * (i - 1) / series

$draw << EOD
head = narrow ? narrow_top : top
set tmargin at screen 1 - head / height
set bmargin at screen foot / height
set lmargin at screen (narrow ? 24 : 220) / width
set rmargin at screen (narrow ? 376 : 852) / width
unset border
unset ytics
set yrange [0:rows]
set xrange [low:high]
set xtics (@ticks) scale 0 textcolor rgb muted font ",12"
set grid xtics linetype 1 linecolor rgb rule linewidth 1
set arrow 1 from first 0, graph 0 to first 0, graph 1 nohead linecolor rgb muted linewidth 1
set label 1 "Relative to ".(narrow ? narrow_baseline : baseline) at graph 0, 1 offset 0, 1 left textcolor rgb muted
set key textcolor rgb ink samplen 1 spacing 1.2 left Left reverse maxrows (narrow ? series : legend_rows)
set key at screen (narrow ? 16 : 212) / width, screen 1 - 8.0 / height
plot data using (0):(y($0)):(valid(series + 1) ? column(series + 1) : 0):(0) with vectors nohead lc rgb muted lw 1 notitle, \
     for [i = 1:series] data using (column(i + 1)):(y($0)) with points pt marks[i] ps size(i) \
       lc rgb colours[i] title (narrow ? narrow_titles[i] : titles[i]), \
     data using (narrow ? low : NaN):(y($0) + 0.45):(stringcolumn(1)) with labels left \
       textcolor rgb ink notitle, \
     data using (narrow ? NaN : low):(y($0)):(stringcolumn(1)) with labels right offset -1, 0 \
       textcolor rgb ink notitle
EOD

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
