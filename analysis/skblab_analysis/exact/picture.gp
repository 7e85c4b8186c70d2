# SPDX-License-Identifier: GPL-2.0-or-later
# What a setting costs: instructions per packet of tester and path, and the difference it makes.
#
# Set above: data, name, rows, all_max, all_ticks, diff_min, diff_max, diff_ticks, share_of (what the
# percentages are of).
# Columns of the data: 1 setting, 2 tester, 3 tester + path, 4 difference from the first row, 5 its
# colour, 6 text for the whole, 7 text for the difference, 8 setting where there is less room.

tester = 0x8a949e
path = 0x0b6e99

row_height = 46
head = 44
foot = 34
panel = head + rows * row_height + foot
wide_height = panel
narrow_height = 2 * panel
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
set rmargin at screen (narrow ? 376 : 490) / width
set xrange [0:all_max]
set xtics (@all_ticks)
set label 1 "Instructions per packet" at graph 0, 1 offset 0, 1 left textcolor rgb muted
set label 2 "■ tester" at graph 1, 1 offset -8, 1 right textcolor rgb tester
set label 3 "■ path" at graph 1, 1 offset 0, 1 right textcolor rgb path
plot data using 2:(y($0)):(0):2:(bar_low($0)):(bar_top($0)) with boxxyerror lc rgb tester, \
     data using 3:(y($0)):2:3:(bar_low($0)):(bar_top($0)) with boxxyerror lc rgb path, \
     data using (0):(text_y($0)):(stringcolumn(narrow ? 8 : 1)) with labels left textcolor rgb ink, \
     data using (all_max):(text_y($0)):6 with labels right textcolor rgb ink

if (narrow) {
  set tmargin at screen 1 - (panel + head) / height
  set bmargin at screen 1 - (panel + head + rows * row_height) / height
} else {
  set lmargin at screen 540 / width
  set rmargin at screen 852 / width
}
set xrange [diff_min:diff_max]
set xtics (@diff_ticks)
unset label 2
unset label 3
set label 1 "Difference (% of ".share_of.")"
plot data using 4:(y($0)):(0):4:(bar_low($0)):(bar_top($0)):5 \
       with boxxyerror lc rgb variable, \
     data using (diff_min):(text_y($0)):(narrow ? stringcolumn(8) : "") \
         with labels left textcolor rgb muted, \
     data using (diff_max):(text_y($0)):7 with labels right textcolor rgb ink

unset multiplot
EOD
