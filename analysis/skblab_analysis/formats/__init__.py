# SPDX-License-Identifier: GPL-2.0-or-later
"""What tools print and run folders hold: pathlat, pktsink, scripts, run documents."""
