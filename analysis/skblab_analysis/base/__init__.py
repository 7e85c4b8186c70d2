# SPDX-License-Identifier: GPL-2.0-or-later
"""What all of the analysis stands on: errors, words and units, histogram, certainty."""
