# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as one file that others can check, cite and make the page of again: `skblab bundle`.

archive     what is in it, with its checksums; the same bytes for the same run
words       README.md and CITATION.cff of it
"""
