"""Java's String.hashCode, by which Kafka spreads groups over partitions and replicas over fetchers.

Mirrors: java.lang.String.hashCode.
"""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Over UTF-16 code units, as a signed int32."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        unit = units[position] << 8 | units[position + 1]
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
