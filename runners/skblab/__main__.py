# SPDX-License-Identifier: GPL-2.0-or-later
"""`python -m skblab` is the same as the `skblab` command."""

from skblab.cli import main

if __name__ == "__main__":
    main()
