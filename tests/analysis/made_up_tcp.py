# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP flows that nobody measured: what a client and a server would have said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from made_up_flows import times

from skblab_analysis.base.checked import parse
from skblab_analysis.formats.run import Plan
from skblab_analysis.formats.tcp import TcpExchangeDocument, TcpServeDocument, TcpStreamDocument
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.tcp.rows import TcpAsked

SCHEMA = "skblab.traffic/2"
# The name of the flow.
FLOW = "over TCP"
BASELINE = "as it stands"
NAMES = (BASELINE, "twice as fast", "the same again")
REQUESTS = 1000
PROCESS = {
    **{"realtime": None, "cpu": None, "rt_runtime_us": None, "rt_period_us": None},
    **{"minor_faults": 0, "major_faults": 0, "involuntary_switches": 0},
}


def tally(attempted: int, failed: int = 0) -> dict[str, int]:
    completed = attempted - failed
    return {"attempted": attempted, "completed": completed, "failed": failed, "unfinished": 0}


def taken(middle: int, count: int) -> dict[str, Any]:
    """Times around one, in ns, or none."""
    if count:
        return times(middle, middle // 4, count)
    none = dict.fromkeys(("min_ns", "mean_ns", "sd_ns", "max_ns"))
    return {"count": 0, "negative": 0, "percentiles_ns": {}, **none}


def client(**more: object) -> dict[str, Any]:
    """What every client says."""
    return {
        **{"schema": SCHEMA, "to": "192.0.2.2:5000", "from": None, "asked": None},
        **{"errors": {"connect": {}, "request": {}, "idle": {}}, "rate_planned": None},
        **{"seconds": 1.0, "late": None, "percentile_error": 1 / 256, "stopped_by": "seconds"},
        "process": PROCESS,
    } | more


def exchange(
    role: str = "tcp_crr",
    took: int = 100_000,
    *,
    failed: int = 0,
    due: bool = False,
    rate: float = 1000.0,
) -> dict[str, Any]:
    """What a client says of requests that took so many ns."""
    done = REQUESTS - failed
    kept = role == "tcp_rr"
    connections = tally(4 if kept else REQUESTS, 0 if kept else failed)
    return client(
        **{"role": role, "flows": 4, "request_bytes": 16, "response_bytes": 16},
        close=None if kept else "server",
        transactions=tally(REQUESTS, failed),
        connections=connections,
        errors={"connect": {"ETIMEDOUT": failed} if failed else {}, "request": {}, "idle": {}},
        **{"rate_asked": 1000 if due else 0, "intervals": None, "rate_reached": rate},
        connect=taken(took // 2, connections["completed"]),
        request=taken(took // 2, done),
        transaction=taken(took, done),
        since_due=taken(2 * took, done) if due else None,
        retransmitted=3 if kept else None,
    )


def stream(rate: float = 1e9, *, asked: int = 0) -> dict[str, Any]:
    """What a client says of two streams that came at so many bits a second."""
    flow = {
        **{"sent_bytes": 500, "received_bytes": 500, "received_seconds": 1.0, "rtt_ns": 90_000},
        **{"min_rtt_ns": 50_000, "retransmitted": 5},
    }
    return client(
        **{"role": "tcp_stream", "reverse": False, "write_bytes": 100, "writes": 10},
        connections=tally(2),
        **{"sent_bytes": 1000, "received_bytes": 1000, "rate_asked": asked, "rate_reached": rate},
        **{"received_rate": rate, "received_seconds": 1.0, "rtt": times(90_000, 40_000, 20)},
        **{"segments": 1000, "retransmitted": 10, "retransmitted_bytes": 50},
        flows=[flow, flow],
    )


def serve(accepted: int) -> dict[str, Any]:
    """What a server says that took so many connections."""
    return {
        **{"schema": SCHEMA, "role": "tcp_serve", "bind": "192.0.2.2:5000", "accepted": accepted},
        **{"closed": {"by_client": accepted, "by_server": 0, "by_reset": 0}, "failed": 0},
        **{"open": 0, "most_open": 4, "answered": 0, "streams": 0, "received_bytes": 0},
        **{"sent_bytes": 0, "errors": {}, "full": 0, "stopped_by": "signal", "process": PROCESS},
    }


def asked(
    setting: str,
    block: int,
    said: dict[str, Any],
    *,
    rate: int | None = None,
    accepted: int | None = None,
) -> TcpAsked:
    """A trial whose client has said this; the server has taken all connections, or so many."""
    model = TcpStreamDocument if said["role"] == "tcp_stream" else TcpExchangeDocument
    taken = said["connections"]["completed"] if accepted is None else accepted
    return TcpAsked(
        setting=setting,
        block=block,
        traffic=FLOW,
        asked=rate,
        client=parse(model, json.dumps(said), "a client"),
        server=parse(TcpServeDocument, json.dumps(serve(taken)), "a server"),
    )


def recorded(results: Path, *found: TcpAsked) -> Run:
    plan = Plan(
        experiment="few",
        question="Does it matter?",
        seed=1,
        baseline=BASELINE,
        settings=NAMES,
        traffic=(FLOW,),
        parameters={f"flow {FLOW}": "TCP over IPv4, connections, one at a time"},
    )
    folder = RunFolder.create(results, "few", plan, synthetic=True)
    for trial in found:
        folder.record(trial)
    return load(folder.path)


def study(results: Path, role: str = "tcp_crr", *, due: bool = False) -> Run:
    """Three blocks of three settings, of which the second one is twice as fast."""
    return recorded(
        results,
        *(
            asked(
                setting,
                block,
                exchange(role, (1000 + block) * took, due=due, rate=1e5 / took - block),
                rate=1000 if due else None,
            )
            for block in range(3)
            for setting, took in zip(NAMES, (100, 50, 100), strict=True)
        ),
    )


def finished_run(results: Path) -> Path:
    """Return the folder of such a run that has ended."""
    return study(results).folder
