# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/workloads.md: the workloads that come with skblab, and what a file says."""

from __future__ import annotations

import re

from skblab.compare.workload import HEADS, shipped
from skblab.pages.keys import cell

FILE = "docs/reference/workloads.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/workloads/: change it there. -->
# Workloads

A workload is what `skblab compare` measures on each side: packets that one kernel forwards,
receives or sends in one way. Give `--workload` a name of this list, or a file of your own.

    ./skblab compare --list
    ./skblab compare 6.12 7.3 --workload forward4 --workload tcp-stream4

A figure is instructions per packet, or per what the column *unit* says. *subtracted*: skblab also
sends the packets from the generator straight to the sink, over one link, and subtracts what that
takes. In all others the sender's instructions are in the figure. *settings of*: the namespace in
which `skblab compare KNOB=VALUE` sets a knob; empty if it cannot. `--quick` measures those marked
quick. All have one flow. Forwarded packets are 64 bytes with IPv4 and 82 with IPv6, on the wire.

A kernel that cannot do what a workload is of leaves it out. `tunnel-wireguard` needs an option that
`kconfig/base.config` does not have: name such a kernel
`6.12+config:kconfig/examples/wireguard.config`. Debian's packages have it.

| workload | what it is | unit | subtracted | quick | settings of |
| --- | --- | --- | --- | --- | --- |
"""
OWN = """
## A file of your own

A workload is a shell script that runs in the guest, as root. Begin with a copy of one of these,
and name it with its folder: `--workload ./mine.sh`. Its name has small letters, digits, dots,
dashes and underscores. Its first lines, up to the first empty one, say `# KEY: VALUE`; the title
is required, and an unknown key is refused:

| key | value |
| --- | --- |
"""
BETWEEN = """
Then come two functions. They run in different shells: a variable of `prepare` is not set in `load`.

| function | what it does |
| --- | --- |
"""
# What a file defines.
FUNCTIONS = {
    "prepare": "makes namespaces, devices and rules. `lacking REASON` leaves the workload out, for "
    "a kernel that cannot do it",
    "load": "sends `$packets` packets by one of the functions below, which reports what arrived. "
    "It prints nothing itself. It is called once to fill the caches, and six times to count",
}
END = """
`runners/skblab/compare/workload.sh` has what they can call: `lay_out` makes a router between
generator and sink, `sent_through` sends from the generator to the sink, `received` lets a socket
read, `exchanged` lets a socket send. Pairs of devices, addresses and namespaces are made by `pair`,
`give_address` and `quiet` (`runners/skblab/testbeds/net.sh`). The guest has the tools of the lab
root, such as ip, tc, nft, ethtool, bridge, bpftool and wg.

If a packet does not arrive, there is no figure. The same holds if the kernel prints a warning. The
run's `logs/` has what each script printed (`NAME-BOOT-prepare.txt`, `NAME-BOOT-rounds.txt`) and
each console.
"""


# What sends by the tester alone, too.
_SUBTRACTED = re.compile(r"\bsent_family\b|\bsent_through\b|\bsent tester\b")


def page() -> str:
    """Return the page."""
    rows = []
    for one in shipped():
        link = f"[`{one.name}`](../../runners/workloads/{one.name}.sh)"
        quick = "quick" if one.quick else ""
        apart = "yes" if _SUBTRACTED.search(one.text) else ""
        rows.append(
            f"| {' | '.join((link, cell(one.title), one.unit, apart, quick, one.knobs or ''))} |\n"
        )
    keys = "".join(f"| `{key}` | {cell(means)} |\n" for key, means in HEADS.items())
    functions = "".join(f"| `{name}` | {what} |\n" for name, what in FUNCTIONS.items())
    return "".join([HEAD, *rows, OWN, keys, BETWEEN, functions, END])
