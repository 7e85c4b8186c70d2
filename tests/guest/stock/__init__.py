# SPDX-License-Identifier: GPL-2.0-or-later
"""A package, so that pytest ends this folder's guest with its last test, not with the session."""
