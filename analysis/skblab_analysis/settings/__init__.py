# SPDX-License-Identifier: GPL-2.0-or-later
"""What knobs were found to be in each trial of a sweep."""
