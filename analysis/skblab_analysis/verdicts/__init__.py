# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on workloads of two sides: tables, the page's section, the sentence."""
