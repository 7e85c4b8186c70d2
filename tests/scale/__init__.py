# SPDX-License-Identifier: GPL-2.0-or-later
"""What thousands of revisions on many nodes take, by a model that is fed with measured times.

`measuring` measures on this machine what one of each thing costs, and writes `costs.json`. `model`
has a campaign of any size run in simulated time. `python -m scale` (make bench-scale) prints the
tables of docs/explain/scale.md.
"""
