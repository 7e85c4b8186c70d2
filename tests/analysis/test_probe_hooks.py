# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe's hooks (probes/bpf/hooks.bpf.c, hooks.h) are those of the catalogue, and no others.

Not compared, for one side has nothing to say of it:
- which families and versions a hook is for: the loader attaches whatever the kernel has;
- a protocol that the catalogue names where the program need not know it: it notes it at the point
  transport, and where SCTP's messages, which are clones, are found again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis.formats.catalogue import Hook, load

FOLDER = Path(__file__).resolve().parents[2] / "probes" / "bpf"
KINDS = {"tp_btf": "tracepoint", "fentry": "entry", "fexit": "return"}
BY_KPROBE = {"kprobe": "fentry", "kretprobe": "fexit"}
# What the functions say that look after NAPI, freed memory and time, and not after a point.
SAID = {
    "schedule": "irq",
    "poll_begins": "poll",
    "poll_ends": "polled",
    "start_send": "send",
    "release": "freed",
    "defer": "deferred",
    "merge": "merged",
    "move": "exchanged",
    "segment": "segmented",
    "NET_PATH_DELIVERED": "user",
    "NET_PATH_TRANSMITTED": "done",
    "NET_PATH_DROPPED": "dropped",
}
# By what the catalogue says in a note instead of in a row.
IN_NOTES = {
    # Any entrance may be the other side of a virtual device.
    ("tracepoint:napi_gro_receive_entry", "done"),
    ("tracepoint:napi_gro_frags_entry", "done"),
    ("tracepoint:netif_receive_skb_entry", "done"),
    ("tracepoint:netif_receive_skb_list_entry", "done"),
    ("tracepoint:netif_rx_ni_entry", "done"),
    # The packet of UDP, of which sendmsg() was seen before.
    ("entry:udp_send_skb", "send"),
    ("entry:udp_v6_send_skb", "send"),
    # By kprobes alone the return of the copy is not seen.
    ("entry:skb_release_data", "user"),
    ("tracepoint:kfree_skb", "user"),
    # What has not ended yet ends as if it were freed.
    ("entry:skb_attempt_defer_free", "user"),
    ("entry:skb_attempt_defer_free", "done"),
    ("entry:skb_attempt_defer_free", "freed"),
}


@dataclass(frozen=True)
class Program:
    section: str
    arguments: str
    body: str

    @property
    def at(self) -> str:
        kind, target = self.section.split("/")
        return f"{KINDS[kind]}:{target}"

    @property
    def subject(self) -> int | None:
        """The number of the argument that the program reads first; None for what is returned."""
        # BPF_PROG() names the arguments of a tracepoint.
        if named := re.findall(r"const struct \w+ \*", self.arguments.partition(",")[2]):
            assert named[0] in ("const struct sk_buff *", "const struct napi_struct *")
            return 0
        if found := re.search(r"\bctx\[(\d+)\]", self.body):
            return int(found[1])
        if found := re.search(r"PT_REGS_PARM(\d)\(ctx\)", self.body):
            return int(found[1]) - 1
        return None


def macros(text: str) -> tuple[dict[str, tuple[list[str], str]], str]:
    """Return the macros with arguments, by name, and the text without them and comments."""
    joined = re.sub(r"[ \t]*\\\n\s*", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    pattern = r"^#define (\w+)\(([\w, ]+)\)[ \t]+(.*)\n"
    found = {
        name: ([part.strip() for part in arguments.split(",")], body)
        for name, arguments, body in re.findall(pattern, joined, re.M)
    }
    return found, re.sub(r"^\s*#.*\n", "", joined, flags=re.M)


def arguments_at(text: str, start: int) -> tuple[list[str], int]:
    """Return what is between the parenthesis at `start` and its other one, and where that is."""
    depth, parts = 0, [""]
    for at in range(start, len(text)):
        one = text[at]
        depth += {"(": 1, ")": -1}.get(one, 0)
        if depth == 0:
            return [part.strip() for part in parts], at + 1
        if one == "," and depth == 1:
            parts.append("")
        elif at > start:
            parts[-1] += one
    raise AssertionError(f"no other parenthesis: {text[start : start + 40]}")


def expanded(text: str, known: dict[str, tuple[list[str], str]]) -> str:
    """Do as the preprocessor does, as far as these files need it."""
    pattern = re.compile(r"\b(" + "|".join(known) + r")\(")
    while found := pattern.search(text):
        names, body = known[found[1]]
        values, end = arguments_at(text, found.end() - 1)
        given = dict(zip(names, values, strict=True))
        for name, value in given.items():
            body = re.sub(rf"(?<!#)#\s*{name}\b", f'"{value}"', body)
        words = (given.get(word, word) for word in re.split(r"(\w+)", body))
        body = "".join(words)
        text = text[: found.start()] + body.replace("##", "") + text[end:]
    return re.sub(r'"\s*"', "", text)


def source() -> tuple[list[Program], dict[str, str]]:
    """Return the programs, and the bodies of the functions that they call, by name."""
    known, text = macros((FOLDER / "hooks.h").read_text() + (FOLDER / "hooks.bpf.c").read_text())
    known = {name: macro for name, macro in known.items() if name != "add"}
    text = expanded(text, known)
    programs = [
        Program(section, arguments, body)
        for section, arguments, body in re.findall(
            r'SEC\("(\w+/\w+)"\)\s*int \w+\((.*?)\)\s*\{(.*?)'
            r"(?=\bSEC\(|^static|^__noinline|^struct|\Z)",
            text,
            re.S | re.M,
        )
    ]
    functions = re.findall(
        r"^(?:static )?__\w+ [\w ]+?\**(\w+)\([^)]*\)\s*\{(.*?)^\}", text, re.S | re.M
    )
    return programs, dict(functions)


def says(body: str, functions: dict[str, str]) -> tuple[set[str], set[str]]:
    """Return the points and ends that a program comes to, and the protocols that it notes."""
    points, protocols, todo, done = set[str](), set[str](), [body], set[str]()
    while todo:
        text = todo.pop()
        points |= {
            p.lower() for p in re.findall(r"(?:stamp|stamp_at|advance)\([^;]*?NET_PATH_(\w+)", text)
        }
        points |= {p.lower() for p in re.findall(r"take_off\([^;]*?NET_PATH_(DRIVER|SEND)\b", text)}
        protocols |= {p.lower() for p in re.findall(r"stamp(?:_at)?\([^;]*?IPPROTO_(\w+)", text)}
        points |= {SAID[word] for word in re.findall(r"\w+", text) if word in SAID}
        # In these stand points that they compare with, and both ends' last points.
        known = (
            set(functions)
            - done
            - {*("stamp", "stamp_at", "finish", "find", "find_any", "move", "reenter")}
        )
        for name in known & set(re.findall(r"(\w+)\(", text)):
            done.add(name)
            todo.append(functions[name])
    return points - {"exchanged"} if "segmented" in points else points, protocols


def catalogued() -> dict[str, tuple[Hook, set[str]]]:
    """Return each hook of the catalogue with the points and ends that it is for."""
    found: dict[str, tuple[Hook, set[str]]] = {}
    for hooked in load().hooked:
        for hook in hooked.hooks:
            found.setdefault(f"{hook.kind}:{hook.target}", (hook, set()))[1].add(hooked.name)
    return found


PROGRAMS, FUNCTIONS = source()
# On a kernel with our series, in the place of the hooks of NAPI polls.
OURS = "tracepoint:napi_poll_sample"
FIRST = {p.at: p for p in PROGRAMS if p.section.split("/")[0] in KINDS}


def test_none_is_missing_on_either_side() -> None:
    assert len(FIRST) == len([p for p in PROGRAMS if p.section.split("/")[0] in KINDS])
    assert set(FIRST) == {*catalogued(), OURS}


def test_points_and_ends() -> None:
    here = {(at, name) for at, p in FIRST.items() for name in says(p.body, FUNCTIONS)[0]}
    there = {(at, name) for at, (_, names) in catalogued().items() for name in names}
    assert here - there == IN_NOTES
    assert there - here == set()


def test_arguments() -> None:
    for at, (hook, _) in catalogued().items():
        if hook.subject is None:
            assert hook.task and FIRST[at].subject is None, at
        elif hook.subject.index is None:
            # After the arguments comes what was returned.
            assert FIRST[at].subject == 4, at
        else:
            assert FIRST[at].subject == hook.subject.index, at


def test_protocols() -> None:
    for at, (hook, names) in catalogued().items():
        noted = says(FIRST[at].body, FUNCTIONS)[1]
        assert not noted or noted == set(hook.protocols), at
        assert noted or "transport" not in names, at


def test_kprobes_are_at_the_same_functions() -> None:
    others = [p for p in PROGRAMS if p.section.split("/")[0] in BY_KPROBE]
    assert len(others) + len(FIRST) == len(PROGRAMS)
    entries = {p.section.split("/")[1]: p for p in others if p.section.startswith("kprobe/")}
    returns = {p.section.split("/")[1]: p for p in others if p.section.startswith("kretprobe/")}
    # A return by kprobe needs the entry to know the argument.
    wanted = {at.split(":")[1] for at in FIRST if at.startswith("entry:")}
    instead = {
        hook.kprobe.at.split(":")[1]: (at, hook.kprobe.skb)
        for at, (hook, _) in catalogued().items()
        if hook.kprobe
    }
    assert set(entries) == wanted | {"__skb_gso_segment"} | set(instead)
    for name, (at, packet) in instead.items():
        assert entries[name].subject == packet.index, name
        assert says(entries[name].body, FUNCTIONS) == says(FIRST[at].body, FUNCTIONS), name
    for name, program in entries.items():
        if name in instead:
            continue
        first = FIRST.get(f"entry:{name}", FIRST.get(f"return:{name}"))
        assert first and first.subject == program.subject, name
        if f"entry:{name}" in FIRST:
            assert says(first.body, FUNCTIONS) == says(program.body, FUNCTIONS), name
    # With their arguments, which a return by kprobe does not have, no others can be seen.
    # None where tasks sleep, for the places to keep returns in are few.
    assert set(returns) == {"__skb_gso_segment"}
    assert {f"return:{name}" for name in returns} <= set(FIRST)
