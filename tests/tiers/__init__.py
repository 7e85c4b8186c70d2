# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tests run in which tier, in which order, on which worker, and what they took."""
