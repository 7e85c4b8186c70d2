# SPDX-License-Identifier: GPL-2.0-or-later
# One figure of several things: a bar for each.
#
# Set above: data, name, rows, axis (what the bars are of), low, high, bar_ticks.
# Columns of the data: 1 name, 2 value, 3 colour, 4 text, 5 name where there is less room.

row_height = 40
head = 44
foot = 34
panel = head + rows * row_height + foot
wide_height = panel
narrow_height = panel
y(i) = rows - i - 0.5
text_y(i) = y(i) + 0.24
bar_low(i) = y(i) - 0.36
bar_top(i) = y(i) - 0.06

$draw << EOD
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
set rmargin at screen (narrow ? 376 : 852) / width
set xrange [low:high]
set xtics (@bar_ticks)
set label 1 axis at graph 0, 1 offset 0, 1 left textcolor rgb muted
plot data using 2:(y($0)):(0):2:(bar_low($0)):(bar_top($0)):3 \
       with boxxyerror lc rgb variable, \
     data using (low):(text_y($0)):(stringcolumn(narrow ? 5 : 1)) \
         with labels left textcolor rgb ink, \
     data using (high):(text_y($0)):4 with labels right textcolor rgb ink
EOD
