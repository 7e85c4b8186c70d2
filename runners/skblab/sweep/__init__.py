# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps: which settings forward most, or are late least, and how sure is that?

experiment.py   what a user asks for: an experiment file
plan.py         what will be done for it, in which order: pure
knobs/          the settings: scripts that read, set and put them back
throughput/     the search for the highest rate, and RFC 2544's other tests

There is no command yet: testbeds and the runner are still to come.
"""
