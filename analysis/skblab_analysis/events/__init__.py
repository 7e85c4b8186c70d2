# SPDX-License-Identifier: GPL-2.0-or-later
"""What perf and Intel's PCM counted per packet, at given rates."""
