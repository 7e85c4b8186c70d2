# SPDX-License-Identifier: GPL-2.0-or-later
# Two figures of several things over one axis, such as rate and loss by offered load: two panels.
#
# Set above: data, name, series, titles, narrow_titles, colours, legend_columns, points (0: lines),
# limit (1: the last block is what cannot be exceeded), from, to, x_log, x_ticks, x_label, and for
# either panel y1_from, y1_to, y1_log, y1_ticks, y1_label, and y2_… .
# The data has one block a series, in order; columns: 1 x, 2 the first figure, 3 and 4 the ends of its
# interval, 5 to 7 the second figure and its ends, 8 another one of the first panel, drawn thin.
# "?" is a figure that is not there.

head = 44
panel = head + 300
legend_rows = (series + legend_columns - 1) / legend_columns
wide_legend = 26 + 22 * legend_rows
legend = 44 + 20 * series
wide_height = panel + wide_legend
narrow_height = 2 * panel + legend
mark = 0.6
thick = points ? 0 : 1.8

$draw << EOD
set multiplot
set border 3 linecolor rgb muted
set xtics nomirror scale 0.5 textcolor rgb muted font ",12"
set ytics nomirror scale 0.5 textcolor rgb muted font ",12"
set grid linetype 1 linecolor rgb rule linewidth 1
set bars 0.5
unset key
if (x_log) { set logscale x }
set xrange [from:to]
set xtics (@x_ticks)
set label 2 x_label at graph 1, 0 offset 0, -2.4 right textcolor rgb muted

set tmargin at screen 1 - head / height
set bmargin at screen 1 - (panel - 58) / height
set lmargin at screen 92 / width
set rmargin at screen (narrow ? 362 : 415) / width
if (y1_log) { set logscale y }
set yrange [y1_from:y1_to]
set ytics (@y1_ticks)
set label 1 y1_label at graph 0, 1 offset 0, 1 left textcolor rgb muted
plot for [i = 1:series] data index i - 1 using 1:8 with lines lc rgb colours[i] lw 1 dt (3, 3), \
     for [i = 1:series] data index i - 1 using 1:(points ? NaN : $2) with lines lc rgb colours[i] lw thick, \
     for [i = 1:series] data index i - 1 using 1:2:3:4 with yerrorbars pt 7 ps mark lw 1.2 lc rgb colours[i], \
     data index (limit ? series : 0) using 1:(limit ? $2 : NaN) with lines lc rgb muted dt (5, 3)

if (narrow) {
  set tmargin at screen 1 - (panel + head) / height
  set bmargin at screen 1 - (2 * panel - 58) / height
} else {
  set lmargin at screen 545 / width
  set rmargin at screen 842 / width
}
unset logscale y
if (y2_log) { set logscale y }
set yrange [y2_from:y2_to]
set ytics (@y2_ticks)
set label 1 y2_label
set key textcolor rgb ink samplen 2 spacing 1.2 left Left reverse maxrows (narrow ? series : legend_rows)
set key at screen 60 / width, screen (narrow ? legend - 16.0 : wide_legend - 12.0) / height
plot for [i = 1:series] data index i - 1 using 1:(points ? NaN : $5) with lines lc rgb colours[i] lw thick \
       notitle, \
     for [i = 1:series] data index i - 1 using 1:5:6:7 with yerrorbars pt 7 ps mark lw 1.2 lc rgb colours[i] \
       title (narrow ? narrow_titles[i] : titles[i]), \
     data index (limit ? series : 0) using 1:(limit ? $5 : NaN) with lines lc rgb muted dt (5, 3) notitle

unset multiplot
EOD
