# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of a module can be broken, and how: one change to its syntax tree at a time.

Docstrings, annotations, imports, sentences and whatever only prints are left alone.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.ClassDef | Function

COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
TWINS |= {"floor": "ceil", "ceil": "floor", "append": "extend"}
# Whatever only tells a person something.
TELLS = {"say", "step", "print", "note", "bar"}
TEXTS = {"help", "title", "description", "metavar", "rich_help_panel", "epilog", "short_help"}
# A string of the program rather than of a person.
TOKEN = re.compile(r"[\w.:/=+*-]{1,40}")


@dataclass
class Place:
    """Where a node stands: what encloses it."""

    parents: tuple[ast.AST, ...]
    # Evaluated when the module is imported, though it may stand in a function's head.
    at_import: bool

    def nearest(self, *kinds: type[ast.AST]) -> ast.AST | None:
        """Return the innermost of these kinds around it."""
        return next(
            (parent for parent in reversed(self.parents) if isinstance(parent, kinds)), None
        )


@dataclass
class Mutant:
    """One change of one line."""

    module: str
    path: str
    line: int
    end: int
    change: str
    source: ast.Module
    place: Place
    # The outermost function that holds it, as `Class.method`; empty if at import.
    function: str = ""
    first_line: int = 0
    names: set[str] = field(default_factory=set)

    def key(self) -> tuple[str, int, str]:
        """Return what names it in a table."""
        return (self.module, self.line, self.change)


def chosen(tree: ast.Module, module: str, path: str, count: int, seed: str) -> list[Mutant]:
    """Return `count` mutants of a module, each on a line of its own, chosen by a seeded die."""
    dice = random.Random(f"{seed}:{module}")
    lines = defaultdict(list)
    for node, place in walk(tree, (), True):
        for replacement in replacements(node, place):
            lines[node.lineno].append((node, place, replacement))
    found = []
    for line in sorted(dice.sample(sorted(lines), min(count, len(lines)))):
        node, place, replacement = dice.choice(lines[line])
        found.append(made(tree, module, path, node, place, replacement))
    return found


def walk(
    node: ast.AST, parents: tuple[ast.AST, ...], at_import: bool
) -> Iterator[tuple[ast.expr | ast.stmt, Place]]:
    """Go over all that may be changed, with where it stands."""
    if isinstance(node, ast.Import | ast.ImportFrom) or told(node, parents):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node, Place(parents, at_import)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "format_spec", "bases", "type_params") or (
            name == "decorator_list" and isinstance(node, ast.ClassDef)
        ):
            continue
        inside = at_import and not (isinstance(node, Function | ast.Lambda) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk(child, (*parents, node), inside)


def told(node: ast.AST, parents: tuple[ast.AST, ...]) -> bool:
    """Return whether a node is a text for a person, or for the type checker."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in TELLS
        case ast.keyword(arg=name):
            return name in TEXTS
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            # The raise itself may be dropped; what it says may change.
            raised = parents and isinstance(parents[-1], ast.Raise)
            return bool(raised) or name in TELLS or name in ("cast", "TypeVar", "NewType")
        case ast.Subscript(value=ast.Name(id="Literal" | "Annotated" | "Callable")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "model_config")]):
            return True
        case ast.Constant(value=str(text)):
            return not TOKEN.fullmatch(text) or bool(
                parents and isinstance(parents[-1], ast.JoinedStr)
            )
    return False


def replacements(node: ast.expr | ast.stmt, place: Place) -> Iterator[ast.AST]:
    """Return what may stand in a node's place."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARE[type(op)]:
                    changed = copy.copy(node)
                    changed.ops = [*ops[:index], other(), *ops[index + 1 :]]
                    yield changed
        case ast.BinOp(op=op) if not textual(node, place):
            yield ast.BinOp(node.left, ARITHMETIC.get(type(op), ast.Add)(), node.right)
        case ast.AugAssign(op=op):
            yield ast.AugAssign(node.target, ARITHMETIC.get(type(op), ast.Add)(), node.value)
            yield ast.Pass()
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield values[0]
            yield values[-1]
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1 if abs(value) < 10 else value * 2)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 2 if value else 1.0)
        case ast.Constant(value=str(value)):
            yield ast.Constant(value + "X")
        case ast.Return(value=value) if value and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.If() | ast.IfExp() | ast.While():
            # A loop for ever is found by its time only.
            for known in (False,) if isinstance(node, ast.While) else (True, False):
                branch = copy.copy(node)
                branch.test = ast.Constant(known)
                yield branch
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Assert() | ast.Delete():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
            yield ast.Pass()
        case ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Call(func=func, args=args, keywords=keywords):
            twin = getattr(func, "id", getattr(func, "attr", ""))
            if twin in TWINS:
                called = copy.copy(func)
                setattr(called, "id" if isinstance(func, ast.Name) else "attr", TWINS[twin])
                yield ast.Call(called, args, keywords)
            plain = [argument for argument in args[:2] if not isinstance(argument, ast.Starred)]
            if len(plain) == 2 and ast.dump(args[0]) != ast.dump(args[1]):
                yield ast.Call(func, [args[1], args[0], *args[2:]], keywords)
            if keywords and not place.at_import:
                yield ast.Call(func, args, keywords[:-1])


def textual(node: ast.BinOp, place: Place) -> bool:
    """Return whether an operator joins texts, paths or types rather than numbers."""
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    for side in (node.left, node.right):
        if isinstance(side, texts) or isinstance(getattr(side, "value", None), str):
            return True
    return isinstance(node.op, ast.BitOr) and place.at_import


def made(
    tree: ast.Module,
    module: str,
    path: str,
    node: ast.expr | ast.stmt,
    place: Place,
    replacement: ast.AST,
) -> Mutant:
    """Return the mutant in which `replacement` stands for `node`."""
    source = swapped(tree, node, ast.copy_location(replacement, node))
    ast.fix_missing_locations(source)
    functions = [parent for parent in place.parents if isinstance(parent, Function)]
    statement = node if isinstance(node, ast.stmt) else place.nearest(ast.stmt)
    assert isinstance(statement, ast.stmt)
    # Of a compound statement only the head counts.
    simple = not hasattr(statement, "body")
    mutant = Mutant(
        module,
        path,
        node.lineno,
        (node.end_lineno or node.lineno) if simple else node.lineno,
        f"{text(node)} → {text(replacement)}",
        source,
        place,
    )
    if place.at_import:
        mutant.names = bound(statement, place)
    else:
        outer = functions[0] if functions else None
        if outer is None:
            # A lambda of the module or of a class: as if at import.
            place.at_import = True
            mutant.names = bound(statement, place)
        else:
            inner = place.parents.index(outer)
            held = [
                parent.name for parent in place.parents[:inner] if isinstance(parent, ast.ClassDef)
            ]
            mutant.function = ".".join([*held, outer.name])
            mutant.first_line = min(
                [outer.lineno, *(decorator.lineno for decorator in outer.decorator_list)]
            )
            mutant.names = {outer.name}
    return mutant


def bound(statement: ast.stmt, place: Place) -> set[str]:
    """Return the names by which the rest of the program sees a statement of a module or class."""
    if isinstance(statement, Function | ast.ClassDef):
        return {statement.name}
    function = place.nearest(ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(function, Function):
        return {function.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {
        name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
    }


def swapped(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    """Return the tree with one node exchanged; all beside the way to it is shared."""

    def rebuilt(node: ast.AST) -> ast.AST | None:
        if node is old:
            return new
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                for index, child in enumerate(value):
                    if isinstance(child, ast.AST) and (other := rebuilt(child)):
                        result = copy.copy(node)
                        setattr(result, name, [*value[:index], other, *value[index + 1 :]])
                        return result
            elif isinstance(value, ast.AST) and (other := rebuilt(value)):
                result = copy.copy(node)
                setattr(result, name, other)
                return result
        return None

    result = rebuilt(tree)
    assert isinstance(result, ast.Module)
    return result


def text(node: ast.AST) -> str:
    """Return a node's source on one line; of a compound statement its head."""
    shown = ast.unparse(ast.fix_missing_locations(node)).splitlines()
    return shown[0] if hasattr(node, "body") else " ".join(line.strip() for line in shown)
