# SPDX-License-Identifier: GPL-2.0-or-later
"""Where packets spend their time, layer by layer, and the ledger of them."""
