"""Columns of a fetch as Arrow arrays, without an object for a record. Needs pyarrow.

How keys and values are gathered: the fetch is taken for a column of twice as many binaries, in turn
a value and what lies between it and the next one, and every second one of them is taken. So places
must not go back from row to row, nor lie in one another; see `RecordColumns`.
"""

from __future__ import annotations

from array import array
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_COUNT: Final = 65_536
_EVERY_SECOND: Final = pa.array(range(0, 2 * _COUNT, 2), pa.int32())


def numbers_of(column: array[int], first: int, last: int) -> pa.Array:
    """int64 of rows [first, last); not a copy."""
    view = memoryview(column)[first:last]
    return pa.Array.from_buffers(pa.int64(), last - first, [None, pa.py_buffer(view)])


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
        wanted = pc.if_else(pc.less(sizes, 0), None, wanted)
        sizes = pc.max_element_wise(sizes, 0)
    bounds = array("i", bytes(2 * count * array("i").itemsize))
    bounds[::2] = _int32(begins)
    bounds[1::2] = _int32(pc.add(begins, sizes))
    parts = [None, pa.py_buffer(bounds), data]
    return pa.Array.from_buffers(pa.binary(), 2 * count - 1, parts).take(wanted)


def _every_second(count: int) -> pa.Array:
    if count <= _COUNT:
        return _EVERY_SECOND[:count]
    return pa.array(array("i", range(0, 2 * count, 2)))


def _int32(numbers: pa.Array) -> array[int]:
    """Of places in a fetch, which is never that large, unpacked or not."""
    return array("i", numbers.cast(pa.int32()).buffers()[1].to_pybytes())
