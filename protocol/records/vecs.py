"""Columns of 64-bit numbers: librt's packed lists, mypyc's own, where the loops are compiled, and
plain lists where they are not.

mypyc uses only the types, so it takes the imports at face value. Never compiled itself.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from librt.vecs import vec
    from mypy_extensions import i64
else:
    i64 = int

    class vec:  # noqa: N801 - librt's name
        """``vec[i64](numbers)``."""

        def __class_getitem__(cls, _item):
            return list


__all__ = ["as_buffer", "as_list", "i64", "vec"]


def as_buffer(column: vec[i64] | array[int]) -> memoryview:
    """Its numbers one after the other, in native byte order."""
    # Where there is no librt a column is a list.
    if isinstance(column, list):  # type: ignore[unreachable]
        return memoryview(array("q", column)).cast("B")  # type: ignore[unreachable]
    return memoryview(column).cast("B")


def as_list(column: vec[i64]) -> list[int]:
    if isinstance(column, list):  # type: ignore[unreachable]
        return column  # type: ignore[unreachable]
    return memoryview(column).tolist()
