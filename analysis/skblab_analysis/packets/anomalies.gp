# SPDX-License-Identifier: GPL-2.0-or-later
# Anomalies of one file over time: least, mean and largest latency of their packets, how long the
# longest of each bin lasts, and how many begin in a bin.
#
# Set above: data, name, several (0: no bin has two), low, high, latency_ticks, limit (from where on
# packets are late), limit_name, shortest, longest, duration_ticks, most, count_ticks, from, to, x_ticks,
# x_label.
# Columns of the data: 1 middle of a bin, 2 least latency, 3 mean, 4 largest, 5 duration of the longest,
# 6 anomalies.

band = 0x8a949e
line = 0x0b6e99

head = 44
upper = head + 220
middle = head + 110
lower = several ? head + 90 : 0
wide_height = upper + middle + lower + 58
narrow_height = wide_height

# By itself, since within braces gnuplot goes wrong where macros make them long.
$lower << EOD
set tmargin at screen 1 - (upper + middle + head) / height
set bmargin at screen 58 / height
set xtics textcolor rgb muted
set yrange [0:most]
set ytics (@count_ticks)
set label 1 "Anomalies that begin" at graph 0, 1 offset 0, 1 left textcolor rgb muted
set label 20 x_label at graph 1, 0 offset 0, -2.4 right textcolor rgb muted
plot data using 1:6 with impulses lw 1.6 lc rgb line
EOD

$draw << EOD
set multiplot
set border 3 linecolor rgb muted
set ytics nomirror scale 0.5 textcolor rgb muted font ",12"
set grid linetype 1 linecolor rgb rule linewidth 1
unset key
set xrange [from:to]
set lmargin at screen (narrow ? 92 : 100) / width
set rmargin at screen (narrow ? 362 : 842) / width
set logscale y

set tmargin at screen 1 - head / height
set bmargin at screen 1 - upper / height
# The lowest panel has what ticks say.
set xtics nomirror scale 0.5 textcolor rgb 0xffffff font ",12" (@x_ticks)
set yrange [low:high]
set ytics (@latency_ticks)
set label 1 "Latency in anomalies: minimum to maximum, and mean" at graph 0, 1 offset 0, 1 left \
    textcolor rgb muted
set arrow 1 from graph 0, first limit to graph 1, first limit nohead front lc rgb ink dt 2
set label 2 limit_name at graph 1, first limit offset 0, -0.6 right textcolor rgb muted front
plot data using 1:2:(0):($4 - $2) with vectors nohead lw 1.6 lc rgb band, \
     data using 1:3 with points pt 7 ps 0.35 lc rgb line
unset arrow 1
unset label 2

set tmargin at screen 1 - (upper + head) / height
set bmargin at screen 1 - (upper + middle) / height
if (!several) { set xtics textcolor rgb muted }
set yrange [shortest:longest]
set ytics (@duration_ticks)
set label 1 "Longest duration" at graph 0, 1 offset 0, 1 left textcolor rgb muted
if (!several) { set label 20 x_label at graph 1, 0 offset 0, -2.4 right textcolor rgb muted }
plot data using 1:5 with impulses lw 1.6 lc rgb line
unset logscale y

if (several) { load $lower }

unset multiplot
EOD
