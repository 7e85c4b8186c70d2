# SPDX-License-Identifier: GPL-2.0-or-later
"""What is measured of a setting: a package or a module for each measure."""
