# SPDX-License-Identifier: GPL-2.0-or-later
"""skblab: patch, build, boot, send, time and report on the Linux network stack."""

__version__ = "0.1.0"
