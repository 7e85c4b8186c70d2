# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput: the highest rate that a device forwards, found by a search.

section.py has what an experiment file asks for, and measure.py is the measure. What it stands on is
pure logic over a Measurer, which knows how to run a trial: trial.py says what a trial is, goals.py
what is searched for, search.py searches, result.py has what was found and limits.py who was the
limit. offering.py is the Measurer of a testbed.
"""
