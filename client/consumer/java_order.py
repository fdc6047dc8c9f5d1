"""The order in which a java.util.HashMap iterates over its keys: assignments depend on it.

Keys are strings. A map iterates over its buckets in order; keys of one bucket keep the order of
insertion, also when the map grows.

Leaves out: the trees that Java makes of eight and more keys in a bucket; they keep this order too.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.java_hash import java_string_hash

FIRST_BUCKETS = 16
LOAD = 0.75  # a map with more keys than this share of its buckets doubles them


def java_order(keys: Iterable[str], expected: int = 0) -> list[str]:
    """`keys`, once each, in a HashMap's order; `expected` is the argument of its constructor."""
    known = list(dict.fromkeys(keys))
    buckets = FIRST_BUCKETS
    if expected:
        buckets = 1 << max(0, expected - 1).bit_length()
    while len(known) > buckets * LOAD:
        buckets *= 2
    return sorted(known, key=lambda key: spread(java_string_hash(key)) & (buckets - 1))


def spread(value: int) -> int:
    value &= 0xFFFFFFFF
    return value ^ (value >> 16)


def utf16_order(text: str) -> bytes:
    """A sort key: java.lang.String compares UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
