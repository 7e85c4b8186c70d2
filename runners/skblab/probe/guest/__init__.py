# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe puts into a guest."""
