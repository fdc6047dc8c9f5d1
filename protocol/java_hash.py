"""Java's hash codes: of a string, by which Kafka spreads groups over partitions and replicas over
fetchers; of several values, by which it spreads the metadata of remote segments.

Mirrors: java.lang.String.hashCode, Long.hashCode, Objects.hash.
"""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Over UTF-16 code units, as a signed int32."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        unit = units[position] << 8 | units[position + 1]
        value = (31 * value + unit) & 0xFFFFFFFF
    return _signed(value)


def java_long_hash(value: int) -> int:
    """Of the 64 bits of `value`, signed or not, as a signed int32."""
    return _signed((value ^ value >> 32) & 0xFFFFFFFF)


def java_objects_hash(*hashes: int) -> int:
    """Of values with these hash codes, as a signed int32."""
    value = 1
    for one in hashes:
        value = (31 * value + one) & 0xFFFFFFFF
    return _signed(value)


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value
