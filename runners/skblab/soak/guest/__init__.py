# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of a soak that runs in the guest, with nothing but Python's own library."""
