# SPDX-License-Identifier: GPL-2.0-or-later
"""Late packets of a sweep: in which layer of the router, what its CPU ran, what the tester saw."""
