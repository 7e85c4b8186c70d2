# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the probes right? Every back end held to known packets, and to the other back ends."""
