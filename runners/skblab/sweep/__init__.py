# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps: which settings forward most, or are late least, and how sure is that?

experiment.py   what a user asks for: an experiment file
plan.py         what will be done for it, in which order: pure
"""
