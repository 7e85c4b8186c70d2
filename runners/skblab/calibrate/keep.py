# SPDX-License-Identifier: GPL-2.0-or-later
"""The last calibration of this machine with this kernel, in the cache."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

from pydantic import ValidationError

from skblab.calibrate.result import Calibration
from skblab.lab import paths
from skblab_analysis.base.disk import write
from skblab_analysis.base.errors import UsageError

FOLDER = "calibration"
MACHINE_ID = Path("/etc/machine-id")


def machine() -> str:
    """Return what tells this machine from others: of its machine ID, which stays here."""
    try:
        name = MACHINE_ID.read_text().strip()
    except OSError:
        name = ""
    return hashlib.sha256(f"skblab {name or platform.node()}".encode()).hexdigest()[:16]


def file() -> Path:
    """Return where the calibration of this machine and kernel is, or would be."""
    kernel = re.sub(r"[^\w.+-]", "_", platform.release())
    return paths.cache_place() / FOLDER / f"{machine()}-{kernel}.json"


def store(calibration: Calibration) -> Path:
    """Keep a calibration, instead of one of before; return where."""
    paths.cache()
    place = file()
    place.parent.mkdir(exist_ok=True)
    write(place, calibration.model_dump_json(indent=1) + "\n")
    return place


def load() -> Calibration:
    """Return the calibration of this machine and kernel; UsageError if there is none."""
    place = file()
    try:
        return Calibration.model_validate_json(place.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"this machine was not calibrated with kernel {platform.release()}: run skblab "
            "traffic calibrate"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {place}: {error.strerror}") from error
    except ValidationError as error:
        why = error.errors()[0]
        raise UsageError(
            f"{place} is damaged, or of another version of skblab ({why['msg']}): run skblab "
            "traffic calibrate again"
        ) from None
