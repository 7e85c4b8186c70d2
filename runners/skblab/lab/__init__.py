# SPDX-License-Identifier: GPL-2.0-or-later
"""What a lab is made of: lab root, kernels, guests, native tools, the cache they are in."""
