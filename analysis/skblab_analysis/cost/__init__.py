# SPDX-License-Identifier: GPL-2.0-or-later
"""What the patches and the probes themselves cost."""
