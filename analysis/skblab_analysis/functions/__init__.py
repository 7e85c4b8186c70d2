# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a packet's instructions go, by kernel function: what a report has of `functions.json`."""
