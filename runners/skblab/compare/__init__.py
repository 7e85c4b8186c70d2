# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between kernels, or between settings: each workload of both, counted and judged."""
