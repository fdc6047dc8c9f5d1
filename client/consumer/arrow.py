"""Columns of a fetch as Arrow arrays, without an object for a record. Needs pyarrow.

How keys and values are gathered: the fetch is treated as a column of twice as many binaries, in
turn a value and the gap before the next value, and every second binary is taken. So positions must
not decrease from row to row, and values must not overlap; see `RecordColumns`.

pyarrow never converts Python objects, neither to arrays nor to scalars: that imports pandas where
it is installed, which takes longer than all other imports of a new reading process.
"""

from __future__ import annotations

from array import array
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_COUNT: Final = 65_536


def numbers_of(column: array[int], first: int, last: int) -> pa.Array:
    """Rows [first, last) as int64, without a copy."""
    view = memoryview(column)[first:last]
    return pa.Array.from_buffers(pa.int64(), last - first, [None, pa.py_buffer(view)])


def int32(number: int) -> pa.Scalar:
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(array("i", [number]))])[0]


def int64(number: int) -> pa.Scalar:
    return numbers_of(array("q", [number]), 0, 1)[0]


def text(content: str) -> pa.Scalar:
    data = content.encode()
    bounds = array("i", [0, len(data)])
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])[
        0
    ]


def flag(is_set: bool) -> pa.Scalar:
    return pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(bytes([is_set]))])[0]


def contents_of(
    data: pa.Buffer, starts: array[int], lengths: array[int], first: int, last: int
) -> pa.Array:
    """The keys or values of rows [first, last): a copy; null where the length is -1."""
    count = last - first
    begins, sizes = numbers_of(starts, first, last), numbers_of(lengths, first, last)
    least = pc.min(sizes).as_py() if count else -1
    if least < 0 and (not count or pc.max(sizes).as_py() < 0):
        return pa.nulls(count, pa.binary())
    wanted = _every_second(count)
    if least < 0:
        wanted = pc.if_else(pc.less(sizes, int64(0)), _NOTHING, wanted)
        sizes = pc.max_element_wise(sizes, int64(0))
    bounds = array("i", bytes(2 * count * array("i").itemsize))
    bounds[::2] = _int32(begins)
    bounds[1::2] = _int32(pc.add(begins, sizes))
    parts = [None, pa.py_buffer(bounds), data]
    return pa.Array.from_buffers(pa.binary(), 2 * count - 1, parts).take(wanted)


def _every_second(count: int) -> pa.Array:
    return _EVERY_SECOND[:count] if count <= _COUNT else _even_numbers(count)


def _even_numbers(count: int) -> pa.Array:
    numbers = pa.py_buffer(array("i", range(0, 2 * count, 2)))
    return pa.Array.from_buffers(pa.int32(), count, [None, numbers])


_NOTHING: Final = pa.nulls(1, pa.int32())[0]
_EVERY_SECOND: Final = _even_numbers(_COUNT)


def _int32(numbers: pa.Array) -> array[int]:
    """Positions in a fetch as int32: a fetch is never too large, compressed or not."""
    return array("i", numbers.cast(pa.int32()).buffers()[1].to_pybytes())
