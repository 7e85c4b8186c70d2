# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job: where a UDP packet's time goes, and what a setting costs in instructions."""
