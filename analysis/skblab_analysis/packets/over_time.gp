# SPDX-License-Identifier: GPL-2.0-or-later
# Packets of one file over time: least, mean and largest latency of each bin, and the rate below.
#
# Set above: data, name, latency (0: it is not known), low, high, latency_ticks, from, to, x_ticks, x_label,
# most, rate_ticks, limits, limit_at (from where on packets are late; limits 0: nowhere).
# Columns of the data: 1 middle of a bin, 2 half of its width, 3 packets per second, 4 least latency,
# 5 mean, 6 largest. "?" is a figure that is not there.

band = 0x8a949e
line = 0x0b6e99

head = 44
upper = latency ? head + 240 : 0
wide_height = upper + head + 120 + 58
narrow_height = wide_height

# By itself, since within braces gnuplot goes wrong where macros make them long.
$upper << EOD
set tmargin at screen 1 - head / height
set bmargin at screen 1 - upper / height
# The panel below has what its ticks say.
set xtics nomirror scale 0.5 textcolor rgb 0xffffff font ",12" (@x_ticks)
set logscale y
set yrange [low:high]
set ytics (@latency_ticks)
set label 1 "Latency: minimum to maximum, and mean" at graph 0, 1 offset 0, 1 left \
    textcolor rgb muted
do for [i = 1:limits] {
  set arrow i from graph 0, first limit_at[i] to graph 1, first limit_at[i] nohead front lc rgb ink dt 2
}
plot data using 1:4:($1 - $2):($1 + $2):4:6 with boxxyerror lc rgb band, \
     data using ($1 - $2):5:(2 * $2):(0) with vectors nohead lw 1.6 lc rgb line
do for [i = 1:limits] {
  unset arrow i
}
unset logscale y
EOD

$draw << EOD
set multiplot
set border 3 linecolor rgb muted
set ytics nomirror scale 0.5 textcolor rgb muted font ",12"
set grid linetype 1 linecolor rgb rule linewidth 1
set style fill solid 1.0 noborder
unset key
set xrange [from:to]
set lmargin at screen (narrow ? 92 : 100) / width
set rmargin at screen (narrow ? 362 : 842) / width

if (latency) { load $upper }

set tmargin at screen 1 - (upper + head) / height
set bmargin at screen 58 / height
set xtics nomirror scale 0.5 textcolor rgb muted font ",12" (@x_ticks)
set yrange [0:most]
set ytics (@rate_ticks)
set label 1 "Packets per second" at graph 0, 1 offset 0, 1 left textcolor rgb muted
set label 20 x_label at graph 1, 0 offset 0, -2.4 right textcolor rgb muted
plot data using ($1 - $2):3:(2 * $2):(0) with vectors nohead lw 1.6 lc rgb line

unset multiplot
EOD
