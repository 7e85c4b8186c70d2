# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/experiment.md: the keys of an experiment file."""

from __future__ import annotations

from pydantic import BaseModel

from skblab.pages.keys import cell, table
from skblab.sweep.experiment import Experiment, Repeats, Setting
from skblab.sweep.measures import MEASURES, PARTS
from skblab.testbeds.asked import Needs, Traffic

FILE = "docs/reference/experiment.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/: change the models there. -->
# The experiment file

An experiment file says which settings `skblab sweep` compares, with which traffic, what it
measures and how often. This one takes two minutes:

    cat > my-settings.toml <<'END'
    name = "my-settings"
    question = "What does a firewall cost?"

    [baseline]                 # what the others are compared with
    rp_filter = 0
    netfilter = "none"

    [[setting]]                # the baseline, but for
    name = "a hundred rules"
    knobs = { netfilter = "nft-forward 100" }

    [measure.throughput]       # what is measured without --exact

    [repeats]
    least = 2                  # blocks, in fresh boots
    most = 2
    budget_minutes = 60        # no block is begun that would end after this
    END
    ./skblab sweep my-settings.toml --exact --packets 5000 --dry-run
    ./skblab sweep my-settings.toml --exact --packets 5000

skblab checks the file before it starts and names the line of each error. Then it says what
cannot be measured here. [What a sweep does](../explain/sweep.md) explains it; [knobs](knobs.md)
has what you can set; [experiments](experiments.md) come with skblab.
"""
COMBINATIONS = """
### Combinations

    [matrix]                   # every combination of these
    rp_filter = [0, 1]
    threaded = [false, true]

`pair = [["rp_filter", "threaded"]]` makes knobs of the matrix go through their values together.
`exclude = [{ rp_filter = 1, threaded = true }]` leaves combinations out.
"""
OWN = """
## What no knob sets

These three forms stand wherever a knob does, and go the way of all knobs: skblab reads each before
it sets it, reads it after, and puts it back at the end. `skblab cleanup` puts back what a killed
run has left on hosts. [`own-settings`](experiments.md) has one of each.

### `sysctl."KEY"`

Any sysctl, by its key in quotes, as sysctl(8) has it:

    [baseline]
    sysctl."net.ipv4.tcp_rmem" = "4096 131072 6291456"
    sysctl."net.ipv4.conf.{port}.forwarding" = 1

`{port}` is each port of the router in turn. A sysctl of a network namespace is set in the router's,
one of the whole machine in that of its first process. A value is a whole number, `true` or `false`
(1 or 0), or a text. If the kernel shows another value than the one that was written, the setting is
refused. A sysctl that cannot be read, or not be written, is skipped. skblab refuses what no write
puts back, such as `net.ipv6.conf.all.disable_ipv6`. `--set` of `skblab profile` takes
`sysctl.KEY=VALUE` as well.

### `[commands.NAME]`

A knob of your own is three shell commands. `NAME` is then a knob like others:

    [commands.txqueuelen]
    set = "ip link set dev {port} txqueuelen {value}"
    get = "cat /sys/class/net/{port}/tx_queue_len"
    restore = "ip link set dev {port} txqueuelen {value}"

    [matrix]
    txqueuelen = [10, 500]

`{value}` and `{port}` become one word of the shell each; skblab quotes it and refuses it within
quotes of yours. Another shell (`sh -c`, `ssh`, `eval`) would read a value as its text: hand it over
as a word, such as `sh -c 'echo "$1" >file' sh {value}`, or by standard input. Each command is run
by `sh -c`, as root, on the device under test and in the router's network namespace, without input.
With `{port}` in any of the three, all are run for each port in turn.

`get` prints one line, which has to be the value after `set`; otherwise the setting is refused.
From one value to the next, only `set` runs. `restore` gets the line that `get` printed before the
first `set`. It may run several times, also without `set` before it: skblab first tries it with that
line, and refuses the setting if it fails; and what a killed run has left may be put back again. A
command fails by its exit status: the setting is then refused, and the reason is the last line of
standard error. A `get` that prints `skblab-unable: WHY` has the setting skipped.

### `netfilter = "my-rules.nft"`

Any text that `nft -f` takes, in a file whose name ends in `.nft`, relative to the experiment file.
skblab loads the text as it is, in the router's network namespace; it may begin with
`flush ruleset`. The rules that were there before come back afterwards. If nft could not load those
again, as some of iptables, the setting is refused. If nft refuses your text, the reason has its
line. Rules that change during a trial make it invalid; elements of named sets may change. The ports
are `r0` (in) and `r1` (out) in every testbed; on hosts they are in a namespace of skblab's, and the
rules of the machine itself stay. The file cannot include others and has at most 1 MiB. The run's
folder keeps the text in `files` and its hash in the journal: `skblab resume` and bundles have the
same rules.
"""
TABLES = ("needs", "traffic", "setting", "measure", "repeats")


def page() -> str:
    """Return the page."""
    parts = [
        HEAD,
        "\n## Keys before the tables\n\n",
        table(Experiment, without=TABLES),
        COMBINATIONS,
        OWN,
        *(_section(f"[{name}]", model) for name, model in (("traffic", Traffic), ("needs", Needs))),
        _section("[[setting]]", Setting),
        "\n## Measures\n\nWithout `--exact` the file has at least one `[measure.NAME]`, of\n"
        f"{', '.join(f'`{measure.name}`' for measure in MEASURES)}.\n",
        *(_section(f"[measure.{part.name}]", part.section) for part in PARTS),
        _section("[repeats]", Repeats),
    ]
    return "".join(parts)


def _section(name: str, model: type[BaseModel]) -> str:
    sentence = (model.__doc__ or "").partition("\n\n")[0]
    return f"\n### `{name}`\n\n{cell(sentence)}\n\n{table(model)}"
