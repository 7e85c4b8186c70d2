# SPDX-License-Identifier: GPL-2.0-or-later
# What is forwarded with each setting: the rate by each goal, and the difference by the first one.
#
# Set above: data, name, rows, goals, titles, colours, rate_max, rate_ticks, rates (what these are),
# full (the rate that fills the line; 0: not shown), foot, diff_min, diff_max, diff_ticks.
# Columns of the data: 1 setting, then for each goal its mean and the ends of its interval, then
# difference from the baseline in per cent, the ends of its interval and its colour, text for the
# first goal, text for the difference, setting where there is less room. "?" is a figure that is not
# there.

row_height = 52
head = 44
panel = head + rows * row_height + foot
wide_height = panel
narrow_height = 2 * panel
# Rows are counted from the top; a row's text stands above its marks.
y(i) = rows - i - 0.5
text_y(i) = y(i) + 0.28
mark_y(i, goal) = y(i) + 0.04 - 0.4 * (goal - 0.5) / goals
difference = 3 * goals + 2

$draw << EOD
set multiplot
unset key
unset border
unset ytics
set yrange [0:rows]
set xtics scale 0 textcolor rgb muted font ",12"
set grid xtics linetype 1 linecolor rgb rule linewidth 1
set bars 0.6

set tmargin at screen 1 - head / height
set bmargin at screen 1 - (head + rows * row_height) / height
set lmargin at screen (narrow ? 24 : 12) / width
set rmargin at screen (narrow ? 376 : 490) / width
set xrange [0:rate_max]
set xtics (@rate_ticks)
set label 1 rates at graph 0, 1 offset 0, 1 left textcolor rgb muted
do for [goal = 1:goals] {
  set label 1 + goal "● ".titles[goal] at graph 1, 1 offset -8 * (goals - goal), 1 right \
      textcolor rgb colours[goal]
}
# What the line carries: beside each mark, but not through the text above it.
plot data using (full > 0 ? full : NaN):(y($0) - 0.46):(0):(0.56) \
         with vectors nohead lc rgb muted dt (5, 3), \
     for [goal = 1:goals] data using (column(3 * goal - 1)):(mark_y($0, goal)): \
         (column(3 * goal)):(column(3 * goal + 1)) \
         with xerrorbars pt 7 ps 0.7 lw 1.5 lc rgb colours[goal], \
     data using (0):(text_y($0)):(stringcolumn(narrow ? difference + 6 : 1)) \
         with labels left textcolor rgb ink, \
     data using (rate_max):(text_y($0)):(stringcolumn(difference + 4)) \
         with labels right textcolor rgb ink

if (narrow) {
  set tmargin at screen 1 - (panel + head) / height
  set bmargin at screen 1 - (panel + head + rows * row_height) / height
} else {
  set lmargin at screen 540 / width
  set rmargin at screen 852 / width
}
set xrange [diff_min:diff_max]
set xtics (@diff_ticks)
do for [goal = 1:goals] { unset label 1 + goal }
set label 1 "Difference, ".titles[1]
# No difference: a line beside each mark, but not through the text above it.
plot data using (0):(y($0) - 0.46):(0):(0.56) with vectors nohead lc rgb muted, \
     data using (column(difference)):(y($0) - 0.16):(column(difference + 1)): \
         (column(difference + 2)):(column(difference + 3)) \
         with xerrorbars pt 7 ps 0.7 lw 1.5 lc rgb variable, \
     data using (diff_min):(text_y($0)):(narrow ? stringcolumn(difference + 6) : "") \
         with labels left textcolor rgb muted, \
     data using (diff_max):(text_y($0)):(stringcolumn(difference + 5)) \
         with labels right textcolor rgb ink

unset multiplot
EOD
