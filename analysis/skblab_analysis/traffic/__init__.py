# SPDX-License-Identifier: GPL-2.0-or-later
"""Flows of our own sender and receiver: packets, rates, and the times between them."""
