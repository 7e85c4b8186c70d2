# SPDX-License-Identifier: GPL-2.0-or-later
"""Histories of a kernel for searches: commits on a real source, of which one slows forwarding.

history(repository, base, seed) → the commits, oldest first, and what each of them does.
"""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from repositories import run_git

FORWARD = "net/ipv4/ip_forward.c"
FILES = tuple(
    f"net/ipv4/{name}.c"
    for name in (
        *("arp", "devinet", "igmp", "inetpeer", "ip_options", "ip_sockglue", "ipip", "netfilter"),
        *("ping", "protocol", "raw", "tcp_cong", "udplite", "xfrm4_output"),
    )
)
# Of these no other commit changes anything.
BROKEN, DEAD = "net/ipv4/proc.c", "net/ipv4/sysctl_net_ipv4.c"
# What cannot be compiled, and what Kconfig does not understand: by seed the one or the other.
_REFUSED = (
    (BROKEN, "\nint tidy(void)\n{\n	return missing;\n}\n"),
    ("net/ipv4/Kconfig", "\nconfig TIDY\n	depends tidily\n"),
)
# What a forwarded packet executes more then, about, in instructions.
STEP = 100
# Behind the declarations of ip_forward().
_PLACE = "	struct net *net;\n	SKB_DR(reason);\n"
_SLOW = f"{_PLACE}\n	for (volatile int tidy = 0; tidy < 20; tidy++)\n		;\n"
_HEAD = "static bool ip_exceeds_mtu(const struct sk_buff *skb, unsigned int mtu)\n"
_TAIL = "\n	return true;\n}\n"
_PANICS = """
static int __init tidy_up(void)
{
	panic("no");
}
core_initcall(tidy_up);
"""


@dataclass
class History:
    """Commits in a row; `culprit`, `broken`, `dead` and `moved` are places among them.

    `refused`: the file that the broken one changes, and what it adds.
    """

    commits: list[str] = field(default_factory=list)
    culprit: int = 0
    broken: int = 0
    dead: int = 0
    moved: int = 0
    refused: tuple[str, str] = _REFUSED[0]


def repository_of(tree: Path, folder: Path) -> str:
    """Make a repository of a source tree, whose files are not copied; return its only commit."""
    run_git(folder, "init", "-q", "--bare")
    run_git(folder, "--work-tree", str(tree), "add", "--all", "--force", ".")
    return _commit(folder, "base", [])


def history(repository: Path, base: str, seed: int, count: int = 20) -> History:
    """Commit so many changes on the base: the places of what they do depend on the seed.

    The commit that does not build, and that which does not boot, are repaired by the next one each.
    None of these is beside the culprit, or it could not be told from them.
    """
    chance = random.Random(seed)
    while True:
        culprit, broken, dead, moved = chance.sample(range(1, count - 1), 4)
        hidden = {broken, broken + 1, dead, dead + 1}
        near = {culprit - 1, culprit, culprit + 1}
        if len(hidden | {culprit, moved}) == 6 and not near & hidden:
            break
    made = History([base], culprit, broken, dead, moved, _REFUSED[seed % len(_REFUSED)])
    run_git(repository, "read-tree", base)
    files = iter(chance.sample(FILES, len(FILES)))
    for place in range(1, count):
        subject = _change(repository, made, place, files)
        made.commits.append(_commit(repository, subject, [made.commits[-1]]))
    run_git(repository, "update-ref", f"refs/heads/seed-{seed}", made.commits[-1])
    return made


def _change(repository: Path, made: History, place: int, files: object) -> str:
    """Change a file in the index; return the subject of the commit."""
    if place == made.culprit:
        text = _text(repository, FORWARD)
        assert text.count(_PLACE) == 1
        _put(repository, FORWARD, text.replace(_PLACE, _SLOW))
        return "ipv4: ip_forward: tidy up"
    if place == made.moved:
        text = _text(repository, FORWARD)
        start = text.index(_HEAD)
        end = text.index(_TAIL, start) + len(_TAIL)
        declared = _HEAD.replace(")\n", ");\n")
        moved = f"{text[:start]}{declared}{text[end:]}\n{text[start:end]}"
        _put(repository, FORWARD, moved)
        return "ipv4: ip_forward: move ip_exceeds_mtu()"
    for bad, file, more in (
        (made.broken, *made.refused),
        (made.dead, DEAD, _PANICS),
    ):
        if place == bad:
            _put(repository, file, _text(repository, file) + more)
            return f"ipv4: {file.rpartition('/')[2]}: tidy up"
        if place == bad + 1:
            _put(repository, file, _text(repository, file).removesuffix(more))
            return f"ipv4: {file.rpartition('/')[2]}: less of it"
    file = next(files)  # type: ignore[call-overload]
    _put(
        repository,
        file,
        f"{_text(repository, file)}\nint tidy_{place}(int a);\nint tidy_{place}(int a)\n"
        f"{{\n	return a + {place};\n}}\n",
    )
    return f"ipv4: {file.rpartition('/')[2]}: tidy up"


def _text(repository: Path, file: str) -> str:
    return run_git(repository, "show", f":{file}") + "\n"


def _put(repository: Path, file: str, text: str) -> None:
    words = ["git", "-C", str(repository), "hash-object", "-w", "--stdin"]
    done = subprocess.run(words, input=text.encode(), check=True, capture_output=True)
    blob = done.stdout.decode().strip()
    run_git(repository, "update-index", "--cacheinfo", f"100644,{blob},{file}")


def _commit(repository: Path, subject: str, parents: list[str]) -> str:
    tree = run_git(repository, "write-tree")
    above = [word for parent in parents for word in ("-p", parent)]
    return run_git(repository, "commit-tree", tree, *above, "-m", subject)
