# SPDX-License-Identifier: GPL-2.0-or-later
"""The highest rates, as searches found them."""
