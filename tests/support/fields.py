"""The fields of an object whose class may be compiled, to compare it by."""

from __future__ import annotations

from typing import Any


def fields_of(one: object) -> dict[str, Any]:
    """By name; what has no fields is its own only one."""
    names = getattr(type(one), "__slots__", None) or getattr(type(one), "__mypyc_attrs__", None)
    return {name: getattr(one, name) for name in names} if names else {"": one}
