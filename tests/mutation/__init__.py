# SPDX-License-Identifier: GPL-2.0-or-later
"""Break lines of the product one by one, and count what no test notices (`make mutants`)."""
