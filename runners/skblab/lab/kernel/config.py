# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel configuration: `kconfig/` fragments merged, and every option in them checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import paths
from skblab.lab.kernel import blame
from skblab.lab.kernel.model import Own
from skblab.lab.labroot import Bind, LabRoot
from skblab_analysis.base import textfile
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.words import counted

# Refused options that the error names; more of them are counted.
NAMED = 5
# The user's own configuration, and options of the user's own, in the output folder.
OWN, ADDED = "own.config", "added.config"
# Fragments of which a kernel of no line of ours may lack something.
FORGIVEN = ("base.config:", "base-", "checking.config:")

_SET = re.compile(r"CONFIG_(\w+)=(.+)$")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set$")
# A line that was meant to ask for something and does not.
_ALMOST = re.compile(r"\s*#?\s*CONFIG_\w+")

# In a sandbox: fragments in /skblab/tree/kconfig, source in /skblab/src, output in
# /skblab/build. The merge is the kernel's own; what no fragment names gets the kernel's
# default (alldefconfig), never a tiny kernel's value.
_MERGE = """
cd /tmp
sh /skblab/src/scripts/kconfig/merge_config.sh -m -O /tmp "$@"
"""
_FROM_DEFAULTS = "make -C /skblab/src O=/skblab/build KCONFIG_ALLCONFIG=/tmp/.config alldefconfig"
# A whole configuration of the user's: what it does not name is new in this kernel.
_FROM_OWN = """
cp /tmp/.config /skblab/build/.config
make -C /skblab/src O=/skblab/build olddefconfig
"""


@dataclass(frozen=True)
class Ask:
    """One line of a fragment: option (without CONFIG_), its value ('n' for unset), and place."""

    option: str
    value: str
    where: str


def fragment(name: str) -> Path:
    """Return the path of the fragment `name` in the tree; UsageError if it is not there."""
    file = paths.tree() / "kconfig" / f"{name}.config"
    if not file.is_file():
        raise UsageError(f"{file} does not exist: expected the kernel configuration fragment")
    return file


def read_fragment(file: Path) -> list[Ask]:
    """Return what `file` asks for; UsageError naming the line that cannot be understood."""
    return asks(textfile.read(file, "the configuration"), file.name)


def asks(text: str, name: str) -> list[Ask]:
    """Return what a fragment of that name asks for; UsageError as read_fragment()."""
    found: dict[str, Ask] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}:{number}"
        said = line.rstrip()
        if match := _SET.match(said):
            ask = Ask(match[1], match[2], where)
        elif match := _UNSET.match(said):
            ask = Ask(match[1], "n", where)
        elif _ALMOST.match(said) or (said and not said.startswith("#")):
            raise UsageError(
                f"{where}: {said!r} is not understood; expected CONFIG_NAME=value, "
                "'# CONFIG_NAME is not set', or a comment"
            )
        else:
            continue
        if ask.option in found:
            raise UsageError(
                f"{where}: CONFIG_{ask.option} is in {found[ask.option].where} already"
            )
        found[ask.option] = ask
    return list(found.values())


def wanted(files: Iterable[Path]) -> dict[str, Ask]:
    """Return the last ask for each option, in the order of the fragments."""
    return {ask.option: ask for file in files for ask in read_fragment(file)}


def parse(text: str) -> dict[str, str]:
    """Return option -> value of a complete `.config`; unset options are 'n'."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if found := _SET.match(line):
            values[found[1]] = found[2]
        elif found := _UNSET.match(line):
            values[found[1]] = "n"
    return values


def merge(
    names: Sequence[str],
    tree: Path,
    output: Path,
    labroot: LabRoot,
    log: Path,
    *,
    own: str | None = None,
    half_applied: bool = False,
    compiler: str = "gcc",
    foreign: bool = False,
    added: Own | None = None,
    env: Mapping[str, str] | None = None,
    binds: Sequence[Bind] = (),
) -> list[Ask]:
    """Write `output/.config` for `tree` from the named fragments, and check it.

    With `own`, the text of a whole configuration, the fragments change that one. With
    `half_applied`, `tree` has a part of our series: options that it lacks are let go.
    `compiler` decides which options there are. A `foreign` kernel is of no line of ours: what it
    refuses of FORGIVEN is let go, and returned. Options `added` by the user come last, and none of
    them may be refused; what is refused of FORGIVEN because of them is let go as well. `env` and
    `binds` are further ones of the sandbox, as another architecture needs them.
    Raises SourceError naming each option that the kernel refused, or where the tree cannot be
    configured; UsageError if the options are `added`.
    """
    mine: dict[str, Ask] = {}
    files = [fragment(name) for name in names]
    asked = wanted(files)
    inside = [f"/skblab/tree/kconfig/{file.name}" for file in files]
    if own is not None:
        (output / OWN).write_text(own)
        inside.insert(0, f"/skblab/build/{OWN}")
    if added is not None:
        (output / ADDED).write_text(added.text)
        inside.append(f"/skblab/build/{ADDED}")
        mine = {ask.option: ask for ask in asks(added.text, str(added.file))}
        _require_not_ours(mine, asked)
        asked |= mine
    script = _MERGE + (_FROM_DEFAULTS if own is None else _FROM_OWN)
    what = "configuring the kernel"
    with blame.explaining(what, log):
        labroot.run(
            ["sh", "-ec", script, "merge", *inside],
            binds=[
                Bind(paths.tree(), "tree"),
                Bind(tree, "src"),
                Bind(output, "build", writable=True),
                *binds,
            ],
            env={**(env or {}), **({} if compiler == "gcc" else {"MAKEFLAGS": f"CC={compiler}"})},
            what=what,
            log=log,
        )
    if half_applied:
        known = _defined(set(asked), tree)
        asked = {option: ask for option, ask in asked.items() if option in known}
    got = parse((output / ".config").read_text())
    if added is not None:
        _check_own(mine, got, tree)
    # What a flavour is and what our series brings no kernel may lack.
    forgiven = {
        option: ask
        for option, ask in asked.items()
        if (foreign or added is not None) and ask.where.startswith(FORGIVEN)
    }
    check({option: ask for option, ask in asked.items() if option not in forgiven}, got, tree)
    return refused(forgiven, got)


def _require_not_ours(mine: Mapping[str, Ask], ours: Mapping[str, Ask]) -> None:
    """Raise UsageError if the user's options change what a flavour is, or what our series needs."""
    for option, ask in mine.items():
        other = ours.get(option)
        if other and other.value != ask.value and not other.where.startswith(FORGIVEN):
            raise UsageError(
                f"{ask.where}: CONFIG_{option}={ask.value}: {other.where} has {other.value}, by "
                "which the kernel goes by its name; leave it out, or choose another flavour or "
                "source"
            )


def _check_own(mine: Mapping[str, Ask], got: Mapping[str, str], tree: Path) -> None:
    """Raise UsageError if the kernel refuses an option of the user's, or does not know it."""
    off = {option for option, ask in mine.items() if ask.value == "n"}
    # One that is to be off and is not there at all comes out as asked, however it is spelt.
    for option in sorted(off - _defined(off, tree) if off else ()):
        raise UsageError(f"{mine[option].where}: this kernel has no option CONFIG_{option}")
    try:
        check(mine, got, tree)
    except blame.SourceError as wrong:
        raise UsageError(str(wrong)) from None


def refused(asked: Mapping[str, Ask], got: Mapping[str, str]) -> list[Ask]:
    """Return what came out other than its fragment asks."""
    return [ask for ask in asked.values() if got.get(ask.option, "n") != ask.value]


def told(lacking: Sequence[str], version: str) -> str:
    """Return in words that a kernel is without some of the options that were asked for."""
    names = ", ".join(f"CONFIG_{option}" for option in lacking[:NAMED])
    return (
        f"Linux {version} does not have, or not as kconfig/ asks, {counted(len(lacking), 'option')}"
        f": {names}{' …' if len(lacking) > NAMED else ''}; it is built without"
    )


def check(asked: Mapping[str, Ask], got: Mapping[str, str], tree: Path) -> None:
    """Raise SourceError when an option came out other than its fragment asks."""
    wrong = refused(asked, got)
    if not wrong:
        return
    known = _defined({ask.option for ask in wrong}, tree)
    named = []
    for ask in wrong[:NAMED]:
        why = "" if ask.option in known else " (this kernel has no such option)"
        value = got.get(ask.option, "n")
        named.append(f"CONFIG_{ask.option} of {ask.where}: wanted {ask.value}, got {value}{why}")
    more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    raise blame.SourceError(
        f"the kernel refused {'; '.join(named)}{more}; "
        "a dependency is missing or another option forces it (see its Kconfig entry)"
    )


def _defined(options: set[str], tree: Path) -> set[str]:
    """Return those of `options` that some Kconfig file of `tree` defines."""
    found: set[str] = set()
    for file in tree.rglob("Kconfig*"):
        if file.is_file():
            names = re.findall(
                r"^\s*(?:menu)?config\s+(\w+)", file.read_text(errors="replace"), re.M
            )
            found |= options & set(names)
    return found
