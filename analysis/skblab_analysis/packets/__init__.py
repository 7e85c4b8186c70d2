# SPDX-License-Identifier: GPL-2.0-or-later
"""What single packets did, file by file: counts, times, anomalies, all of it over time."""
