# SPDX-License-Identifier: GPL-2.0-or-later
"""The measures, in the order in which a report has them. A new one is a package and a line here."""

from __future__ import annotations

import skblab_analysis.bisect.view
import skblab_analysis.cost.view
import skblab_analysis.cpu.view
import skblab_analysis.events.view
import skblab_analysis.exact.view
import skblab_analysis.functimes.view
import skblab_analysis.functions.view
import skblab_analysis.late.view
import skblab_analysis.latency.view
import skblab_analysis.layers.trial_view
import skblab_analysis.layers.view
import skblab_analysis.packets.view
import skblab_analysis.rfc2544.view
import skblab_analysis.samples.view
import skblab_analysis.settings.view
import skblab_analysis.study.view
import skblab_analysis.tcp.view
import skblab_analysis.throughput.view
import skblab_analysis.traffic.view
import skblab_analysis.verdicts.view
import skblab_analysis.work.view
from skblab_analysis.view import View

VIEWS: tuple[View, ...] = (
    skblab_analysis.layers.trial_view.VIEW,
    skblab_analysis.verdicts.view.VIEW,
    skblab_analysis.bisect.view.VIEW,
    skblab_analysis.exact.view.VIEW,
    skblab_analysis.functions.view.VIEW,
    skblab_analysis.functimes.view.VIEW,
    skblab_analysis.throughput.view.VIEW,
    skblab_analysis.rfc2544.view.VIEW,
    skblab_analysis.study.view.VIEW,
    skblab_analysis.latency.view.VIEW,
    skblab_analysis.traffic.view.VIEW,
    skblab_analysis.tcp.view.VIEW,
    skblab_analysis.packets.view.VIEW,
    skblab_analysis.cpu.view.VIEW,
    skblab_analysis.events.view.VIEW,
    skblab_analysis.samples.view.VIEW,
    skblab_analysis.late.view.VIEW,
    skblab_analysis.layers.view.VIEW,
    skblab_analysis.work.view.VIEW,
    skblab_analysis.settings.view.VIEW,
    skblab_analysis.cost.view.VIEW,
)
