# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a sweep runs: a generator, a device under test and a sink, and how packets get through."""
