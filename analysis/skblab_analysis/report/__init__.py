# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages, terminal tables, pictures and findings."""
