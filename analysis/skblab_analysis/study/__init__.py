# SPDX-License-Identifier: GPL-2.0-or-later
"""A published study beside our own run of its experiment.

summary.py  changes of the rate by setting, published and ours, and how far they agree
view.py     tables, the page's section, and sentences
"""
