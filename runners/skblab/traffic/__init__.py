# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab traffic run`: flows between hosts as a file says, setting by setting, recorded."""
