# SPDX-License-Identifier: GPL-2.0-or-later
"""Route tables from text files: a prefix on each line, or what `bgpdump -m` makes of MRT files."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from skblab.knobs.routeset import HEAD, HEADS, MOST

# TABLE_DUMP2|time|B|peer|AS|PREFIX|…
_PREFIX_FIELD = 5


def read(file: Path, family: int) -> list[str]:
    """Return the prefixes of a family, each once, in the file's order; ValueError with its line.

    Those that would be in the way of a testbed's own routes, or of private ones, are left out, and
    so is a default route.
    """
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the routes in {file}: {error}") from error
    found: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split("|")
        word = fields[_PREFIX_FIELD if len(fields) > _PREFIX_FIELD else 0].strip()
        if not word or word.startswith("#"):
            continue
        try:
            network = ipaddress.ip_network(word)
        except ValueError as error:
            raise ValueError(f"{file}:{number}: {error}; expected such as 192.0.2.0/24") from error
        if network.version == family and usual(network):
            found[str(network)] = None
    if not found:
        raise ValueError(f"{file}: has no route of IPv{family} that can be taken")
    if len(found) > MOST[family]:
        raise ValueError(f"{file}: has {len(found)} routes, expected at most {MOST[family]}")
    return list(found)


def usual(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    """Whether a prefix is public, and for IPv4 of a network that routes are made of."""
    head = HEAD[network.version]
    if network.prefixlen < head:
        return False
    if network.version == 6:
        return network.is_global
    return int(network.network_address) >> (network.max_prefixlen - head) in HEADS[4]
