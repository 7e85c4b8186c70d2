# SPDX-License-Identifier: GPL-2.0-or-later
# How times are distributed: the share that is done by a time, and that on an axis of percentiles.
#
# Set above: data, name, series, titles, narrow_titles, colours, heavy (the number of the series to
# draw thick), legend_columns, from, to, ticks, rarest, rare_ticks, known (with fewer values beyond it a
# percentile is dotted), what.
# The data has one block a series, in order; columns: 1 time (a bucket's upper bound),
# 2 share of values no larger, 3 share of values larger, 4 how many these are.

head = 44
panel = head + 300
legend = 44 + 20 * series
legend_rows = (series + legend_columns - 1) / legend_columns
wide_legend = 26 + 22 * legend_rows
wide_height = panel + wide_legend
narrow_height = 2 * panel + legend
thick(i) = i == heavy ? 3 : 1.8

$draw << EOD
set multiplot
set border 3 linecolor rgb muted
set xtics nomirror scale 0.5 textcolor rgb muted font ",12"
set ytics nomirror scale 0.5 textcolor rgb muted font ",12"
set grid linetype 1 linecolor rgb rule linewidth 1
set logscale x
# A little wider, or rounding drops what stands on the edge.
set xrange [0.999 * from:1.001 * to]
set xtics (@ticks)
unset key

set tmargin at screen 1 - head / height
set bmargin at screen 1 - (panel - 40) / height
set lmargin at screen (narrow ? 92 : 60) / width
set rmargin at screen (narrow ? 376 : 415) / width
set yrange [0:1]
set ytics ("none" 0, "25 %%" 0.25, "half" 0.5, "75 %%" 0.75, "all" 1)
set label 1 what at graph 0, 1 offset 0, 1 left textcolor rgb muted
plot for [i = 1:series] data index i - 1 using 1:2 with lines lc rgb colours[i] lw thick(i)

if (narrow) {
  set tmargin at screen 1 - (panel + head) / height
  set bmargin at screen 1 - (2 * panel - 40) / height
} else {
  set lmargin at screen 545 / width
  set rmargin at screen 852 / width
}
set logscale y
# Each step up is ten times rarer.
set yrange [1:rarest]
set ytics (@rare_ticks)
set label 1 "The same, by percentile"
set key textcolor rgb ink samplen 2 spacing 1.2 left Left reverse maxrows (narrow ? series : legend_rows)
set key at screen 60 / width, screen (narrow ? legend - 16.0 : wide_legend - 12.0) / height
plot for [i = 1:series] data index i - 1 using 1:($3 > 0 ? $3 : NaN) with lines \
       lc rgb colours[i] lw 1.2 dt (2, 3) notitle, \
     for [i = 1:series] data index i - 1 using 1:($4 >= known ? $3 : NaN) with lines \
       lc rgb colours[i] lw thick(i) title (narrow ? narrow_titles[i] : titles[i])

unset multiplot
EOD
