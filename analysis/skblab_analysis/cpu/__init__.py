# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time per packet, at given rates."""
