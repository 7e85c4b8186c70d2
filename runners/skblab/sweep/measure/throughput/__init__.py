# SPDX-License-Identifier: GPL-2.0-or-later
"""How much traffic a device carries: pure logic over a Measurer, which knows how to run a trial.

trial.py says what a trial is, goals.py what is searched for, search.py searches, result.py has what
was found and limits.py who was the limit; the others are the further tests of RFC 2544.
"""
