# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: every setting that a sweep can turn, as scripts that read, set and put it back.

base.py      what a knob is, and the machine that it turns something on
sysctl.py    kernel parameters
ethtool.py   what a NIC's driver sets: rings, queues, coalescing, offloads
sysfs.py     what a device's folder in /sys has: RPS, XPS, RFS, threaded NAPI
registry.py  all of them, by name
"""
