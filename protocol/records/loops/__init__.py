"""The loops over encoded records: plain typed functions over ``bytes``, interpreted or compiled.

Each takes the decompressed records block of a v2 batch, or makes one. None handles CRCs or codecs,
and only one handles headers; they hold no state beyond a call or a small object, and raise only
``InvalidRecord``.

| module | loop |
|---|---|
| `scan` | check every record, as a leader does before it appends |
| `small_batch` | the same for a small batch, of which it takes the header too |
| `places` | where keys, values and headers lie, and each record's offset and time |
| `keys` | keys, and which records stay: the cleaner |
| `encode` | the records of a new batch |
| `varint` | the numbers of all of them |

mypyc compiles these files: they are a unit of `compiled.py`. `COMPILED` tells which ones run.

To behave alike both ways, the loops keep every number within 64 bits, and let no exception but an
``IndexError`` of ``bytes`` reach a handler.
"""

from __future__ import annotations

from typing import Final

from . import varint

COMPILED: Final = not str(varint.__file__).endswith(".py")
