# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands, one file each: options in, one call, figures out."""
