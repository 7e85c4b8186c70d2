# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab root: one Debian tree that is both the toolchain and the guests' file system."""

from skblab.lab.labroot.root import LabRoot, ensure, existing, run_logged
from skblab.lab.labroot.sandbox import Bind

__all__ = ["Bind", "LabRoot", "ensure", "existing", "run_logged"]
