# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of the documents: docs/figures.toml lists each, with the command that makes it.

`make figures` runs those commands that take less than a minute, and says which figures are not so
any more. A unit test holds that each listed figure is in its document, and each figure listed.
"""
