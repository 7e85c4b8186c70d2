# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe itself costs: measured once for each kernel and probe, and kept."""

from skblab.probe.cost.calibration import calibrated, count, of_run, probe_of

__all__ = ["calibrated", "count", "of_run", "probe_of"]
