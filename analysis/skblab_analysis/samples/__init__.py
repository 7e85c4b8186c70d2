# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions of the kernel run while packets come, by samples of perf, at given rates."""
