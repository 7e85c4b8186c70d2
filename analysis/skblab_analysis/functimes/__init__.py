# SPDX-License-Identifier: GPL-2.0-or-later
"""How long calls of kernel functions take."""
