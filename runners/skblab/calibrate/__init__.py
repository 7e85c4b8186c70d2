# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab traffic calibrate`: what this machine adds as a tester, over loopback and a veth pair.

`tester` runs the traffic program in networks of its own, `measure` decides what to run, `result` is
what comes of it, and `keep` remembers that by machine and kernel.
"""
