# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe`: timing packets by layer on this machine, in a guest, or on another host."""
