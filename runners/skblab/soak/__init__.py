# SPDX-License-Identifier: GPL-2.0-or-later
"""A long life in minutes: mixed load, everything switched meanwhile, and no trouble allowed."""
