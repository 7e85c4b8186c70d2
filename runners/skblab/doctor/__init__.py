# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab doctor`: what this machine can do, and what that means for a user."""
