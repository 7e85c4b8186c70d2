# SPDX-License-Identifier: GPL-2.0-or-later
"""Every trial of a run, good or invalid, whatever it measured."""
