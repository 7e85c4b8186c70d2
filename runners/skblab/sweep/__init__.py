# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps: which settings forward most, or are late least, and how sure is that?

request.py       what a user asks for on the command line, and what a run folder keeps of it
experiment.py    an experiment file
measures.py      all that can be measured; measure/ has a package or module for each
planned.py       boots, settings and measurements, of which a plan is made
plan.py          what will be done, in which order; budget.py: how much of it fits: pure
dryrun.py        its commands, without doing anything; shipped.py: the experiments of skblab
session.py       a run from its plan to its end: what it needs is built, and all of it measured
machines.py      where its testbeds come up: guests; hostmachines.py: real machines
running.py       boots, settings and measurements, invalid and resumed ones: what all sweeps share
parallel.py      boots side by side; spent.py: the time that a run has taken
progress.py      how far a run has come, for one that is resumed; best.py: its best setting so far
inputs.py        what figures depend on beside the plan; booting.py: the kernels of its boots
"""
