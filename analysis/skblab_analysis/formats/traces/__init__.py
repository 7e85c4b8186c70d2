# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets that other programs have recorded: read, counted and kept as records of ours.

`chunk` is what every reader yields, `opening` finds the reader of a file, `account` counts as
`skblab-traffic receive` does (`times`, `tracking`), `document` is what is printed of it, and
`export` writes records for other programs.
"""
