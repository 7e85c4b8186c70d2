# SPDX-License-Identifier: GPL-2.0-or-later
"""What settings differ from the baseline, of all measures, as a table."""
