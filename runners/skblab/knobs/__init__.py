# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: every setting that a sweep can set, as scripts that read, set and put it back.

base.py      what a knob is; values.py: the values that it takes
sysctl.py    kernel parameters
anysysctl.py those that no knob of ours is; keys.py: their names
commands.py  commands that an experiment file has; perport.py: states of each port
ethtool.py   what a NIC's driver sets: rings, queues, coalescing, offloads
rss.py       which queues RSS spreads flows over, and its key
irq.py       which CPUs the interrupts of queues go to
sysfs.py     what a device's folder in /sys has: RPS, XPS, RFS, threaded NAPI
napi.py      threads of NAPI instances one by one: mode, CPUs, priority; by napi_netlink.py
qdisc.py     the queue before the driver
link.py      MTU, VLAN
netfilter.py rules; rules.py: those of a user's file
routes.py    how many routes; routeset.py makes them, routefile.py reads them
processor.py governor, SMT
load.py      load beside packets
boot.py      what only a boot sets: kernel, its arguments, SELinux
applying.py  all of that set on a machine, read back, and put back
registry.py  all of them, by name; page.py: their page in docs/
"""
