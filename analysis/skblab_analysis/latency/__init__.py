# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency, jitter, late packets and anomalies at given rates."""
