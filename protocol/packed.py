"""Numbers in bytes: librt's readers and writers, mypyc's own, and plain ones where librt is
missing.

mypyc uses only the types, so it takes the imports at face value: in compiled modules each
of these is a few machine instructions. Never compiled itself.

A read past the end raises IndexError. A write of a value that does not fit raises ValueError,
OverflowError or TypeError, in all three forms.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.implementation.name == "cpython":
    from librt.strings import (
        BytesWriter,
        read_f64_be,
        read_i16_be,
        read_i32_be,
        read_i64_be,
        write_f64_be,
        write_i16_be,
        write_i32_be,
        write_i64_be,
    )
else:
    from .packed_plain import (
        BytesWriter,
        read_f64_be,
        read_i16_be,
        read_i32_be,
        read_i64_be,
        write_f64_be,
        write_i16_be,
        write_i32_be,
        write_i64_be,
    )

__all__ = [
    "BytesWriter",
    "read_f64_be",
    "read_i16_be",
    "read_i32_be",
    "read_i64_be",
    "write_f64_be",
    "write_i16_be",
    "write_i32_be",
    "write_i64_be",
]
