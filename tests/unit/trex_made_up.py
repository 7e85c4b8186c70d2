# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a made-up `trex.stl.api`: it records what it is asked, and says recorded statistics.

Names and arguments are those of TRex's own API (STLClient), statistics of the form that its
`get_stats()` gives of a port.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

API = """
import json
import time
from pathlib import Path

# Between looks at the counters, which are recorded.
time.sleep = lambda seconds: None

HERE = Path(__file__).parent
SAID = json.loads((HERE / "stats.json").read_text())
CALLS = []


class STLError(Exception):
    pass


class _Part:
    def __init__(self, *words, **named):
        said = {"is": type(self).__name__, **named}
        self.said = said | ({"words": words} if words else {})


def _plain(value):
    return value.hex() if isinstance(value, bytes) else value.said


class CTRexVmInsFixHwCs:
    L4_TYPE_UDP = 11


class STLPktBuilder(_Part): pass
class STLScVmRaw(_Part): pass
class STLStream(_Part): pass
class STLTXCont(_Part): pass
class STLTXSingleBurst(_Part): pass
class STLVmFixChecksumHw(_Part): pass
class STLVmFlowVar(_Part): pass
class STLVmWrFlowVar(_Part): pass


class STLClient:
    def __init__(self, **named):
        self.record("STLClient", named)

    def record(self, name, named):
        CALLS.append([name, named])
        (HERE / "calls.json").write_text(json.dumps(CALLS, default=_plain))

    def get_stats(self, ports):
        self.record("get_stats", {"ports": ports})
        found = SAID.pop(0) if SAID[1:] else SAID[0]
        return {int(port): values for port, values in found.items()}

    def connect(self):
        print("Connecting to RPC server on 127.0.0.1:4501")
        self.record("connect", {})
        if (HERE / "gone").exists():
            raise STLError("*** Failed to get server response\\n from 127.0.0.1")

    def __getattr__(self, name):
        assert name in (
            *("reset", "add_streams", "start", "wait_on_traffic", "disconnect"),
        ), name

        def call(*words, **named):
            self.record(name, named | {"words": words} if words else named)

        return call
"""


def port(opackets: int, ipackets: int, oerrors: int = 0) -> dict[str, float]:
    """Return the statistics of a port, as PortStats.to_dict() of TRex has them."""
    return {
        **{"opackets": opackets, "ipackets": ipackets, "oerrors": oerrors, "ierrors": 0},
        **{"obytes": opackets * 60, "ibytes": ipackets * 60},
        **{"tx_bps": 0.0, "tx_pps": 0.0, "tx_bps_L1": 0.0, "tx_util": 0.0},
        **{"rx_bps": 0.0, "rx_pps": 0.0, "rx_bps_L1": 0.0, "rx_util": 0.0},
    }


def write(folder: Path, stats: Sequence[Mapping[int, Mapping[str, float]]]) -> Path:
    """Write the package; it says these statistics, one after the other, and the last for good."""
    api = folder / "trex" / "stl"
    api.mkdir(parents=True)
    for package in (api, api.parent):
        (package / "__init__.py").touch()
    (api / "api.py").write_text(API)
    (api / "stats.json").write_text(json.dumps(stats))
    return api


def calls(api: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return what the client was asked, in order."""
    return [(name, named) for name, named in json.loads((api / "calls.json").read_text())]
