# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep can measure: a package or module for each measure, with all that it is.

base.py says what that takes; ../measures.py lists them; timed.py and exact.py run them, each by a
clock of its own.
"""
