# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps: which settings forward most, or are late least, and how sure is that?

experiment.py   what a user asks for: an experiment file
plan.py         what will be done for it, in which order: pure
dryrun.py       its commands, without doing anything
knobs/          the settings: scripts that read, set and put them back
testbeds/       generator, device under test and sink, and how packets get through
exact.py        instructions per packet of every setting, in guests that count them
progress.py     how far a run has come, for one that is resumed
throughput/     the search for the highest rate, and RFC 2544's other tests

Those in `exact` mode run; what is measured on the wall clock is still to come.
"""
