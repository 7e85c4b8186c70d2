# SPDX-License-Identifier: GPL-2.0-or-later
"""A flow that pktgen sends, from the port of its host: the command, and what came of it.

generator.sh does it, as for all else that pktgen sends here.
"""

from __future__ import annotations

from skblab.testbeds.base import CHECKSUM_BYTES, NANOSECONDS, counts
from skblab.traffic.flow import Flow
from skblab.traffic.hosts import BY_PKTGEN, Host
from skblab_analysis.formats.pathlat import SenderDocument

# What generator.sh prints.
SENT = ("packets sent", "refused", "microseconds")
MICROSECONDS = 1_000_000


def argv(flow: Flow, sender: Host, receiver: Host, count: int | None, limit: float) -> list[str]:
    """Return the command; it ends after `limit` seconds, or earlier if `count` packets are sent."""
    words: dict[str, object] = {
        "device": sender.device,
        "mac": receiver.mac,
        "family": flow.family,
        "from": sender.addresses[flow.family],
        "to": receiver.addresses[flow.family],
        "port": flow.port,
        "size": flow.frame_bytes - CHECKSUM_BYTES,
        "flows": flow.flows,
        "cpu": flow.cpu,
        "count": count,
        "limit": f"{limit:g}",
    }
    if flow.rate is not None:
        how = ("ratep", flow.rate) if flow.ratep else ("gap", round(NANOSECONDS / flow.rate))
        words |= [how]
    given = [f"{name}={value}" for name, value in words.items() if value is not None]
    return ["env", f"GENERATOR={sender.name}", "sh", BY_PKTGEN, *given]


def document(printed: str) -> SenderDocument:
    """Return what pktgen says of itself as our own sender would; how late it was nobody knows."""
    sent, refused, microseconds = counts("pktgen", printed, SENT)
    # From the first packet to the last one, as our own sender has it: its time ends with the last.
    reached = (sent - 1) / microseconds * MICROSECONDS if sent > 1 and microseconds else None
    return SenderDocument.model_validate(
        {
            "schema": "skblab.traffic/2",
            "role": "send",
            "sent": sent,
            "unsent": refused,
            "rate_reached": reached,
        }
    )
