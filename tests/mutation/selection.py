# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tests can notice a mutant: those that execute its line, or use what it names."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from coverage import CoverageData

from mutation.sites import Function, Mutant

FIXTURE = "fixture "
# What a statement that runs at import is tried with at most, in seconds of the tests alone.
AT_IMPORT_SECONDS = 15.0


class Selection:
    """The map of lines to tests, and what each test takes."""

    def __init__(self, data: Path, notes: Path, sources: dict[str, str]) -> None:
        self.data = CoverageData(str(data))
        self.data.read()
        told = json.loads(notes.read_text())
        self.seconds: dict[str, float] = told["seconds"]
        self.failed: set[str] = set(told["failed"])
        self.users: dict[str, list[str]] = told["fixtures"]
        self.order = {test: number for number, test in enumerate(self.seconds)}
        self.sources = sources
        self.mentions = mentions(sources)

    @cache  # noqa: B019
    def lines(self, path: str) -> dict[int, set[str]]:
        """Return the tests of each line of a file; `""` is the time before the tests."""
        found = {}
        for line, contexts in self.data.contexts_by_lineno(path).items():
            tests: set[str] = set()
            for context in contexts:
                name = context.rsplit("|", 1)[-1]
                tests |= set(self.users.get(name, ())) if name.startswith(FIXTURE) else {name}
            found[line] = tests
        return found

    def executing(self, path: str, lines: range) -> set[str]:
        """Return the tests that execute one of these lines."""
        known = self.lines(path)
        return {test for line in lines for test in known.get(line, ())}

    def tests(self, mutant: Mutant) -> tuple[list[str], bool]:
        """Return the tests that can notice it, in order, and whether it needs a fresh import."""
        fresh = mutant.place.at_import
        found: set[str] = set()
        if not fresh:
            found = self.executing(mutant.path, range(mutant.line, mutant.end + 1))
            if not found:
                head = mutant.place.nearest(ast.stmt)
                found = (
                    self.executing(mutant.path, range(head.lineno, head.lineno + 1))
                    if (
                        isinstance(head, ast.stmt)
                        and not isinstance(head, Function)
                        and hasattr(head, "body") is False
                    )
                    else set()
                )
            fresh = "" in found
        if fresh:
            found |= self.using(mutant)
        usable = sorted(found - self.failed - {""}, key=lambda one: self.rank(one, mutant))
        if not mutant.place.at_import:
            return usable, fresh
        total, kept = 0.0, list[str]()
        for test in usable:
            total += self.seconds.get(test, 0.1)
            if total < AT_IMPORT_SECONDS or not kept:
                kept.append(test)
        return kept, True

    def using(self, mutant: Mutant) -> set[str]:
        """Return the tests of what mentions the names that a statement gives."""
        names, found = set(mutant.names), set()
        seen: set[str] = set()
        for _ in range(3):
            new: set[str] = set()
            for name in names - seen:
                for path, function, lines in self.mentions.get(name, ()):
                    if path in self.sources and "/tests/" in path:
                        found |= {
                            test for test in self.seconds if path.endswith(test.split("::")[0])
                        }
                    elif function:
                        found |= self.executing(path, lines)
                    else:
                        new |= bound_in(path, lines.start, self.sources)
            seen |= names
            names = new
        if not found - {""}:
            for tests in self.lines(mutant.path).values():
                found |= tests
        return found

    def rank(self, test: str, mutant: Mutant) -> tuple[bool, bool, float]:
        """Return where a test comes: those of the module first, the cheap before the dear."""
        seconds = self.seconds.get(test, 1.0)
        near = mutant.module.rsplit(".", 1)[-1] in test or bool(
            re.search(rf"\b{mutant.module.rsplit('.', 1)[-1]}\b", self.text(test))
        )
        dear = seconds > 0.3
        return (dear, not near, seconds if dear else self.order.get(test, 0))

    @cache  # noqa: B019
    def text(self, test: str) -> str:
        """Return the imports of a test's file."""
        name = test.split("::")[0]
        path = next((source for source in self.sources if source.endswith(name)), None)
        lines = self.sources[path].splitlines() if path else []
        return "\n".join(line for line in lines if "import" in line)


def mentions(sources: dict[str, str]) -> dict[str, list[tuple[str, bool, range]]]:
    """Return where each name is read: the file, whether in a function, the statement's lines."""
    found = defaultdict(list)

    def look(path: str, node: ast.AST, function: bool, lines: range) -> None:
        if isinstance(node, ast.stmt):
            end = node.lineno if hasattr(node, "body") else node.end_lineno or node.lineno
            lines = range(node.lineno, end + 1)
        name = ""
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                pass
            case ast.keyword(arg=str(name)):
                pass
        if name:
            found[name].append((path, function, lines))
        function = function or isinstance(node, Function | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            look(path, child, function, lines)

    for path, source in sources.items():
        look(path, ast.parse(source), False, range(0))
    return found


@cache
def _bound(source: str) -> dict[int, set[str]]:
    named: dict[int, set[str]] = {}
    for node in ast.parse(source).body:
        names = {
            name.id
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        if isinstance(node, Function | ast.ClassDef):
            names = {node.name}
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            named[line] = names
    return named


def bound_in(path: str, line: int, sources: dict[str, str]) -> set[str]:
    """Return the names that the statement of a module on this line gives."""
    return _bound(sources[path]).get(line, set())
