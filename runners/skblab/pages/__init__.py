# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of docs/reference/ that are made of the code: commands, knobs, files that users write.

`make schemas` writes them; a test holds that they are current.
"""
