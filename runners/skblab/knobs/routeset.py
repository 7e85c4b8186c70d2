# SPDX-License-Identifier: GPL-2.0-or-later
"""Route tables of any size that are like the Internet's: the same for the same count and seed.

Prefix lengths have the shares of the public tables of 2024; where a prefix is, is random, so that
many lie in others, as they do there. Nothing comes twice. No prefix is in a special range, such as
those of testbeds, private networks and documentation (RFC 6890): for IPv4 any network of class A
that has such a range in it is left out as a whole.

Runs on the device under test as well, alone, for a million routes are sooner made than sent:

    routeset.py 4|6 COUNT SEED      a prefix on each line
"""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterator, Mapping

SEED = 1
MOST = {4: 1_000_000, 6: 200_000}
# Prefix length to its share, in any unit; rounded counts.
SHARES: Mapping[int, Mapping[int, int]] = {
    4: {
        **{8: 16, 9: 13, 10: 39, 11: 104, 12: 300, 13: 590, 14: 1190, 15: 2090, 16: 13500},
        **{17: 8400, 18: 14300, 19: 25200, 20: 45000, 21: 52500, 22: 107000, 23: 96500},
        24: 573000,
    },
    6: {
        **{28: 150, 29: 4700, 30: 600, 31: 350, 32: 24000, 33: 4500, 34: 2900, 35: 1500},
        **{36: 10500, 37: 900, 38: 2100, 39: 1100, 40: 19500, 41: 900, 42: 6300, 43: 1000},
        **{44: 20500, 45: 2300, 46: 6400, 47: 4700, 48: 100000},
    },
}
# Leading bits of all prefixes, as many as HEAD says. IPv4: 0, 10 (private), 100 (carriers), 127
# (own), 169 (link-local), 172, 192 (private), 198 (benchmarks), 203 (documentation), and from 224
# on. IPv6: the five regional registries' 2400::/12 and so on; 2001:db8::/32 is in none of them.
HEAD = {4: 8, 6: 12}
SPECIAL = frozenset({10, 100, 127, 169, 172, 192, 198, 203})
HEADS = {
    4: tuple(head for head in range(1, 224) if head not in SPECIAL),
    6: (0x240, 0x260, 0x280, 0x2A0, 0x2C0),
}
BITS = {4: 32, 6: 128}
ADDRESS_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


def counts(family: int, count: int) -> dict[int, int]:
    """Return how many prefixes there are of each length: the shares, by largest remainder."""
    if not 0 <= count <= MOST[family]:
        raise ValueError(f"{count} routes of IPv{family}: expected 0 to {MOST[family]}")
    shares = SHARES[family]
    whole = sum(shares.values())
    found = {length: count * share // whole for length, share in shares.items()}
    left = count - sum(found.values())
    # Of those with the same remainder the longer prefix.
    order = sorted(shares, key=lambda length: (count * shares[length] % whole, length))
    for length in order[len(order) - left :]:
        found[length] += 1
    return found


def prefixes(family: int, count: int, seed: int = SEED) -> Iterator[str]:
    """Yield so many prefixes, shorter ones first."""
    head, heads, bits = HEAD[family], HEADS[family], BITS[family]
    for length, wanted in counts(family, count).items():
        choose = random.Random(f"{family} {length} {seed}")
        rest = length - head
        for number in choose.sample(range(len(heads) << rest), wanted):
            leading = heads[number >> rest] << rest | number & ((1 << rest) - 1)
            packed = (leading << (bits - length)).to_bytes(bits // 8, "big")
            yield f"{socket.inet_ntop(ADDRESS_FAMILY[family], packed)}/{length}"


def main() -> None:
    """Print a set of routes."""
    family, count, seed = map(int, sys.argv[1:])
    sys.stdout.writelines(f"{prefix}\n" for prefix in prefixes(family, count, seed))


if __name__ == "__main__":
    main()
