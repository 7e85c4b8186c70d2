# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run leaves and what is made of it: records, statistics, tables, pictures, report.

Start at `skblab_analysis.runfolder` (the run folder) and `skblab_analysis.report.page` (the page).
"""
