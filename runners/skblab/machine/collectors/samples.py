# SPDX-License-Identifier: GPL-2.0-or-later
"""perf record: which functions of the kernel run on each CPU, by samples with call graphs.

Stacks are added up on the machine, so that what comes from it is a line for each CPU and stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skblab.machine.collectors.base import Tool
from skblab.machine.collectors.perf import TOOL, refused
from skblab.machine.transport import Transport
from skblab_analysis.base.errors import SkblabError, one_line, understood
from skblab_analysis.base.whole import MOST, whole
from skblab_analysis.formats.stacks import DEEPEST
from skblab_analysis.samples.rows import CLOCK, USER, Stack

# perf writes to a file that has no name any more: whatever ends it, nothing stays. Names are the
# running kernel's: a vmlinux that lies about may be of another build, and a file of settings would
# have perf take other stacks. How many samples were lost only the statistics say in full.
RECORD = """
export PERF_CONFIG=/dev/null
file=$(mktemp) && exec 4<>"$file" && rm -f "$file" || exit
event=$1 frequency=$2 fold=$3
shift 3
perf record -q -a --call-graph fp --kernel-callchains -N -e "$event" -F "$frequency" \\
	-o /dev/fd/4 -- "$@" >&2 || exit
{
	perf report -i /dev/fd/4 --stats --stdio | sed -n 's/^ *LOST[A-Z_]* events: */== lost /p'
	perf script -i /dev/fd/4 --kallsyms=/proc/kallsyms --no-inline -F cpu,period,ip,sym ||
		echo '== failed'
} | awk "$fold"
"""
TRYING = ("perf", "record", "-q", "-a", "-o", "/dev/null")
# Of a program the kernel's part is kept, and `[user]` where there is none. Of a stack that is
# deeper than any path of packets the innermost frames are.
FOLD = r"""
function add() {
	if (cpu == "")
		return
	key = cpu "\t" (stack == "" ? "[user]" : stack)
	samples[key]++
	weight[key] += period
	squares[key] += period * period
	cpu = ""
}
function frame(address, name) {
	if (address ~ /^ffff/ && length(address) == 16 && ++frames <= 100)
		stack = stack == "" ? name : name ";" stack
}
/^== failed/ { failed = 1 }
/^== lost/ { lost += $3; next }
$1 ~ /^\[[0-9]+\]$/ {
	add()
	cpu = substr($1, 2, length($1) - 2) + 0
	period = $2
	stack = ""
	frames = 0
	frame($3, $4)
	next
}
NF { frame($1, $2) }
END {
	if (failed)
		exit 1
	add()
	print "lost\t" lost + 0
	for (key in samples)
		printf "%s\t%d\t%.0f\t%.0f\n", key, samples[key], weight[key], sqrt(squares[key])
}
"""


@dataclass(frozen=True)
class Sampler:
    """The Recorder: so many samples a second of each CPU, of an event of perf."""

    event: str
    frequency: int

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "perf record"

    @property
    def tool(self) -> Tool:
        """What it needs on the machine."""
        return TOOL

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the command line that samples while a command runs."""
        return ["sh", "-c", RECORD, "sh", self.event, str(self.frequency), FOLD, *command]

    def read(self, printed: str) -> tuple[Stack, ...]:
        """Return the stacks of each CPU; SkblabError if samples were lost, or there are none."""
        head, *lines = printed.splitlines() or [""]
        with understood(self.name, printed):
            word, _, number = head.partition("\t")
            if word != "lost":
                raise ValueError("expected how many samples were lost, and a line for each stack")
            lost = whole(number, MOST)
            found = tuple(_stack(line) for line in lines)
        if lost:
            raise SkblabError("perf lost samples: ask for fewer a second (frequency), or send less")
        if not found:
            raise SkblabError(f"perf took no sample of {self.event}")
        if all(stack.stack == USER for stack in found):
            raise SkblabError("perf saw no function of the kernel: expected addresses at ffff…")
        return found


def chosen(event: str | None, frequency: int, transport: Transport) -> Sampler:
    """Return what samples an event; by default cycles, or the clock where those are not counted.

    SkblabError for an event of the user's that the machine cannot sample.
    """
    asked = event or "cycles"
    why = refused((asked,), transport)[asked]
    if not why:
        # Some processors count it, and raise no interrupt.
        tried = transport.run([*TRYING, "-e", asked, "-F", str(frequency), "--", "true"])
        if not tried.status:
            return Sampler(asked, frequency)
        said = tried.stderr.strip().splitlines()
        why = one_line(said[0], 120) if said else "perf failed"
    if event:
        raise SkblabError(f"perf cannot sample {event} here: {why}")
    return Sampler(CLOCK, frequency)


def _stack(line: str) -> Stack:
    parts = line.split("\t")
    if len(parts) != 5 or parts[1].count(";") >= DEEPEST:
        raise ValueError(f"{one_line(line, 80)!r}: expected CPU, stack, samples, weight, spread")
    cpu, stack, samples, weight, spread = parts
    return Stack(
        cpu=whole(cpu),
        stack=stack,
        samples=whole(samples, MOST),
        weight=whole(weight, MOST),
        spread=whole(spread, MOST),
    )
