# SPDX-License-Identifier: GPL-2.0-or-later
# Where a packet's time goes: mean times laid end to end, and beside them the median and the tail.
#
# Set above: data, name, rows, mean_max, mean_ticks, tail_min, tail_max, tail_ticks.
# Columns of the data: 1 layer, 2 start, 3 end (of the mean, from the first point), 4 colour,
# 5 p50, 6 p99, 7 max, 8 text for the mean, 9 text for the tail. "?" is a figure that is not given.

row_height = 46
head = 44
foot = 34
panel = head + rows * row_height + foot
wide_height = panel
narrow_height = 2 * panel
# Rows are counted from the top; a row's text stands above its bar.
y(i) = rows - i - 0.5
text_y(i) = y(i) + 0.24
bar_low(i) = y(i) - 0.36
bar_top(i) = y(i) - 0.06

$draw << EOD
set multiplot
unset key
unset border
unset ytics
set yrange [0:rows]
set xtics scale 0 textcolor rgb muted font ",12"
set grid xtics linetype 1 linecolor rgb rule linewidth 1
set style fill solid 1.0 noborder

set tmargin at screen 1 - head / height
set bmargin at screen 1 - (head + rows * row_height) / height
set lmargin at screen (narrow ? 24 : 12) / width
set rmargin at screen (narrow ? 376 : 474) / width
set xrange [0:mean_max]
set xtics (@mean_ticks)
set label 1 "Mean time, layer after layer" at graph 0, 1 offset 0, 1 left textcolor rgb muted
plot data using 3:(y($0)):2:3:(bar_low($0)):(bar_top($0)):4 with boxxyerror lc rgb variable, \
     data using (0):(text_y($0)):1 with labels left textcolor rgb ink, \
     data using (mean_max):(text_y($0)):8 with labels right textcolor rgb ink

if (narrow) {
  set tmargin at screen 1 - (panel + head) / height
  set bmargin at screen 1 - (panel + head + rows * row_height) / height
} else {
  set lmargin at screen 530 / width
  set rmargin at screen 846 / width
}
set logscale x
# A little wider, or rounding drops what stands on the edge.
set xrange [0.999 * tail_min:1.001 * tail_max]
set xtics (@tail_ticks)
set label 1 "Median ●   99 % ◆   slowest packet |"
plot data using 5:(y($0) - 0.21):($7 - $5):(0):4 \
       with vectors nohead lc rgb variable linewidth 1.5, \
     data using 5:(y($0) - 0.21):($6 - $5):(0):4 \
       with vectors nohead lc rgb variable linewidth 6, \
     data using 5:(y($0) - 0.21):4 with points pt 7 ps 0.7 lc rgb variable, \
     data using 6:(y($0) - 0.21):4 with points pt 13 ps 0.9 lc rgb variable, \
     data using 7:(y($0) - 0.31):(0):(0.2):4 with vectors nohead lc rgb variable linewidth 1.5, \
     data using (tail_min):(text_y($0)):1 with labels left textcolor rgb muted, \
     data using (tail_max):(text_y($0)):9 with labels right textcolor rgb ink

unset multiplot
EOD
