# SPDX-License-Identifier: GPL-2.0-or-later
"""What the patches cost in instructions per packet, and what the tools beside them cost."""
