# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests."""
