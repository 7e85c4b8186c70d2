# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's selftests, run in guests: those our series adds, and the kernel's own compared."""
