"""The partition of an internal topic that holds a key: by Java's String.hashCode, as in Kafka.

Clients never compute it; brokers of one cluster must agree on it, so the arithmetic must be exactly
Java's: 31*h + c over UTF-16 code units in signed 32 bits, then Utils.abs, which maps
Integer.MIN_VALUE to 0.
"""

from functools import lru_cache

from ...protocol.java_hash import java_string_hash

_MIN_INT32 = -(2**31)
# Requests repeat the same ids. The number of ids to remember, and the length of the longest.
_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 256

_remembered_hash = lru_cache(_REMEMBERED)(java_string_hash)


def partition_for_key(key: str, partition_count: int) -> int:
    """The partition of the internal topic that owns `key` (a group or transactional id)."""
    value = _remembered_hash(key) if len(key) <= _LONGEST_REMEMBERED else java_string_hash(key)
    return 0 if value == _MIN_INT32 else abs(value) % partition_count


def utf16_length(text: str) -> int:
    """Length as Java's String.length counts it: characters beyond the BMP count twice."""
    return len(text) + sum(1 for character in text if character > "\uffff")
