# SPDX-License-Identifier: GPL-2.0-or-later
"""Many runs at once: which there are, their figures over time, and a store of all of them.

`listing` looks at run folders, `reading` takes one's figures as rows (`rows`), `store` keeps the
rows of many runs in a few files, `sql` hands them to DuckDB, `history` puts them in order of time.
"""
