"""Filters of records that a person types: `value.user == "ada" and offset > 5`; pure.

Written as in Python, read by its parser, and evaluated here: names, fields, comparisons, `and`,
`or`, `not`, `in`, texts and numbers, and nothing else: no call, no attribute of a Python object.
`key` and `value` are parsed as JSON, else their text; a missing field is None, and a comparison of
incomparable values is false.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

NAMES: Final = ("key", "value", "headers", "offset", "partition", "timestamp")
LENGTH_MAX: Final = 1000
DEPTH_MAX: Final = 50  # of parts within parts
EXPECTED: Final = f"compare {', '.join(NAMES)}, as in: value.user == 'ada' and offset > 5"

Record = Mapping[str, Any]
Part = Callable[[Record], Any]

_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}


class BadExpression(Exception):
    """An expression cannot be parsed; the text says which forms are allowed."""


def compiled(text: str) -> Callable[[Record], bool]:
    """A filter of records, whose fields are the NAMES. Raises BadExpression."""
    if len(text) > LENGTH_MAX:
        raise BadExpression(f"a filter has at most {LENGTH_MAX} characters")
    try:
        meant = ast.parse(text.strip(), mode="eval").body
        if _is_too_deep(meant):
            raise BadExpression(f"a filter is at most {DEPTH_MAX} deep")
        part = _part(meant)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadExpression(f"{text!r} is not understood: {EXPECTED}") from None
    return lambda record: bool(part(record))


def _is_too_deep(node: ast.AST) -> bool:
    level: list[ast.AST] = [node]
    for _ in range(DEPTH_MAX):
        level = [child for one in level for child in ast.iter_child_nodes(one)]
        if not level:
            return False
    return True


def _part(node: ast.expr) -> Part:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        constant = node.value
        return lambda record: constant
    if isinstance(node, ast.Name) and node.id in NAMES:
        name = node.id
        return lambda record: record.get(name)
    if isinstance(node, ast.Name) and node.id in ("true", "false", "null"):
        word = {"true": True, "false": False, "null": None}[node.id]
        return lambda record: word
    if isinstance(node, ast.Attribute):
        return _field(_part(node.value), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _field(_part(node.value), node.slice.value)
    if isinstance(node, ast.UnaryOp):
        return _unary(node)
    if isinstance(node, ast.BoolOp):
        parts = [_part(one) for one in node.values]
        every = all if isinstance(node.op, ast.And) else any
        return lambda record: every(part(record) for part in parts)
    if isinstance(node, ast.Compare):
        return _comparison(node)
    raise BadExpression(f"{ast.unparse(node)!r} cannot be asked: {EXPECTED}")


def _unary(node: ast.UnaryOp) -> Part:
    part = _part(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda record: not part(record)
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, int | float):
            return lambda record: -value
    raise BadExpression(f"{ast.unparse(node)!r} cannot be asked: {EXPECTED}")


def _field(part: Part, name: object) -> Part:
    def find(record: Record) -> Any:
        whole = part(record)
        if isinstance(whole, Mapping):
            return whole.get(name)
        if isinstance(whole, list) and isinstance(name, int) and name < len(whole):
            return whole[name]
        return None

    return find


def _comparison(node: ast.Compare) -> Part:
    parts = [_part(one) for one in (node.left, *node.comparators)]
    steps = []
    for place, kind in enumerate(node.ops):
        compare = _COMPARISONS.get(type(kind))
        if compare is None:
            raise BadExpression(f"{ast.unparse(node)!r} cannot be asked: {EXPECTED}")
        steps.append((parts[place], compare, parts[place + 1]))

    def holds(record: Record) -> bool:
        try:
            return all(compare(one(record), other(record)) for one, compare, other in steps)
        except (TypeError, RecursionError):  # two values as deep as JSON may be
            return False

    return holds
