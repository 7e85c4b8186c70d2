# SPDX-License-Identifier: GPL-2.0-or-later
# How busy CPUs were: a row of cells for each setting, a cell for each CPU; or a row for each CPU, a cell for
# each part of a trial. Cells are filled from below.
#
# Set above: data, name, rows, columns, column_ticks, what (what the cells are of), parts, colours (of these).
# The data has two blocks. Columns of the first: 1 name, 2 text, 3 name where there is less room.
# Of the second, a cell: 1 middle, 2 left, 3 right, 4 bottom, 5 top, up to where it is filled by 6 interrupts
# and softirqs, 7 and other work. A row is 1 high, the lowest one begins at 0.

row_height = 48
head = 66
foot = 34
panel = head + rows * row_height + foot
wide_height = panel
narrow_height = panel
text_y(row) = rows - row - 0.2

$draw << EOD
unset key
unset border
unset ytics
set yrange [0:rows]
set xrange [0:columns]
set xtics scale 0 textcolor rgb muted font ",12"
set style fill solid 1.0 noborder

set tmargin at screen 1 - head / height
set bmargin at screen 1 - (head + rows * row_height) / height
set lmargin at screen (narrow ? 24 : 12) / width
set rmargin at screen (narrow ? 376 : 852) / width
set xtics (@column_ticks)
set label 1 what at graph 0, 1 offset 0, 2.2 left textcolor rgb muted
set label 2 "■ ".parts[1] at graph 0, 1 offset 0, 0.8 left textcolor rgb colours[1]
set label 3 "■ ".parts[2] at graph 1, 1 offset 0, 0.8 right textcolor rgb colours[2]
plot data index 1 using 1:4:2:3:4:5 with boxxyerror lc rgb rule, \
     data index 1 using 1:4:2:3:4:6 with boxxyerror lc rgb colours[1], \
     data index 1 using 1:4:2:3:6:7 with boxxyerror lc rgb colours[2], \
     data index 0 using (0):(text_y($0)):(stringcolumn(narrow ? 3 : 1)) with labels left textcolor rgb ink, \
     data index 0 using (columns):(text_y($0)):2 with labels right textcolor rgb ink
EOD
