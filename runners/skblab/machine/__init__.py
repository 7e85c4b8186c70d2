# SPDX-License-Identifier: GPL-2.0-or-later
"""A computer that we talk to: transports, guests, devices, counters, its kernel log."""
