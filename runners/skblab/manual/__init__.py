# SPDX-License-Identifier: GPL-2.0-or-later
"""Man pages and shell completion, made from the definitions of the commands."""
