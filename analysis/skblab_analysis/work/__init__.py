# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counted of its own work: interrupts, softirqs, softnet."""
