# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP between two programs of ours: connections, requests and streams, by setting."""
