# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps: which settings forward most, or are late least, and how sure is that?

experiment.py   what a user asks for: an experiment file
plan.py         what will be done for it, in which order: pure
dryrun.py       its commands, without doing anything
knobs/          the settings: scripts that read, set and put them back
testbeds/       generator, device under test and sink, and how packets get through
running.py      boots, settings and trials of a run, void and resumed ones: what all sweeps share
exact.py        instructions per packet of every setting, in guests that count them
wall.py         the highest rate of every setting, on the wall clock
progress.py     how far a run has come, for one that is resumed
throughput/     the search for the highest rate, and RFC 2544's other tests

Instructions and throughput are measured, in one guest; latency and layers at given rates, and other
testbeds, are still to come.
"""
