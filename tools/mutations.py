"""One-line bugs: every way in which a module is changed to see whether its tests notice.

A mutation changes one place of the syntax tree: an operator, a comparison, a constant, a condition, a returned value, a
check that raises, a call made for its effect. Messages, annotations, docstrings and decorators are left alone, since
they decide nothing.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
NO_CODE = {"annotation", "returns", "decorator_list", "type_params"}
LONGEST = 90  # letters of the expression with which a mutation is shown


@dataclass(frozen=True)
class Mutation:
    """A place in a tree and what to put there.

    Attributes
    ----------
    line : int
        Where it is.
    name : str
        The function or class that holds it, and the change in words: the same as long as the code is.
    apply : callable
        A context manager inside which the tree is changed.
    """

    line: int
    name: str
    apply: Callable[[], AbstractContextManager[None]]


def mutations(tree: ast.Module) -> list[Mutation]:
    """Return every mutation of a module, in the order of its lines."""
    counts: dict[str, int] = {}
    unique = []
    for place in _places(tree, Place((), (tree, "", None))):
        for slot, new in _alternatives(place):
            mutation = _mutation(place.path, slot, new)
            counts[mutation.name] = count = counts.get(mutation.name, 0) + 1
            name = mutation.name if count == 1 else f"{mutation.name} (no. {count})"
            unique.append(Mutation(mutation.line, name, mutation.apply))
    return unique


Path = tuple[ast.AST, ...]
Slot = tuple[ast.AST, str, int | None]  # a node, its field, and the place in it if it is a list


class Place(NamedTuple):
    """A node, with all above it, and where it hangs. Operators are shared objects, so a node alone is no place."""

    path: Path
    slot: Slot


def _places(node: ast.AST, place: Place) -> Iterator[Place]:
    here = Place((*place.path, node), place.slot)
    yield here
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"} or isinstance(
            node, ast.Raise | ast.Assert
        ):
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _left_alone(child):
                yield from _places(child, Place(here.path, (node, name, at)))


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value) == "Literal"  # a type
    return isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr)


def _alternatives(place: Place) -> Iterator[tuple[Slot, ast.AST]]:
    """Yield what may stand in a place, and in which slot."""
    node, slot = place.path[-1], place.slot
    if type(node) in SWAPPED:
        yield from ((slot, new()) for new in SWAPPED[type(node)])
    elif isinstance(node, ast.Constant):
        yield from ((slot, ast.Constant(value)) for value in _other_values(node.value))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield slot, node.operand
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield (node, "value", None), ast.Constant(None)
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield slot, ast.Pass()
    elif isinstance(node, ast.Break):
        yield slot, ast.Continue()
    elif isinstance(node, ast.Continue):
        yield slot, ast.Break()
    elif isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield (node, "test", None), ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.comprehension):
        yield from (((node, "ifs", at), ast.Constant(True)) for at in range(len(node.ifs)))


def _other_values(value: object) -> list[object]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1]
        case float():
            return [2.0 * value if value else 1.0]
        case str():
            return [value + (value[:1] or "x")]
        case bytes():
            return [value + (value[:1] or b"x")]
    return []


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _mutation(path: Path, slot: Slot, new: ast.AST) -> Mutation:
    @contextmanager
    def apply() -> Iterator[None]:
        old = _put(slot, new)
        try:
            yield
        finally:
            _put(slot, old)

    shown = _shown(path)
    before = _header(shown)
    with apply():
        after = _header(new if shown is path[-1] and slot[0] is not shown else shown)
    where = ".".join(n.name for n in path if isinstance(n, ast.FunctionDef | ast.ClassDef)) or "module"
    line = next(node.lineno for node in reversed(path) if hasattr(node, "lineno"))
    return Mutation(line, f"{where}: {_short(before)} -> {_short(after)}", apply)


def _put(slot: Slot, new: object) -> object:
    parent, name, at = slot
    if at is None:
        old = getattr(parent, name)
        setattr(parent, name, new)
    else:
        old = getattr(parent, name)[at]
        getattr(parent, name)[at] = new
    return old


def _shown(path: Path) -> ast.AST:
    """Return the widest expression or simple statement around the last node that is short enough to be read."""
    shown = path[-1]
    for node in reversed(path[:-1]):
        if not isinstance(node, ast.expr | ast.Assign | ast.AugAssign | ast.Return | ast.Expr | ast.keyword):
            if isinstance(node, ast.comprehension | ast.arguments | ast.operator | ast.cmpop):
                continue
            break
        if len(ast.unparse(node)) > LONGEST and isinstance(shown, ast.expr | ast.stmt):
            break
        shown = node
    return shown


def _header(node: ast.AST) -> str:
    """Return the code of a node; of a statement with a body, only how it begins."""
    if isinstance(node, ast.If | ast.While):
        return f"{type(node).__name__.lower()} {ast.unparse(node.test)}"
    return ast.unparse(node)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 2 * LONGEST else f"{text[: 2 * LONGEST]}…"
