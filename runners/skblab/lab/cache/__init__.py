# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache as a whole: what is in it, how much it may take, what goes first.

sizes.py    how much disk is needed, and how much the cache may take
kinds.py    what kinds of entries there are
entries.py  all entries: what a user knows each by, size, last use, whether it is in use
needed.py   which of them this checkout needs
choice.py   which ones go
keep.py     removing them; the bound after something was added
"""
