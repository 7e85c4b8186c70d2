# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commit made a workload slower: what a search measured, and what it found."""
