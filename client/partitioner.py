"""Which partition a key goes to: Kafka's murmur2, so that all clients agree.

Mirrors: org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of `data` with Kafka's seed, unsigned."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    if length & 3:
        value ^= int.from_bytes(data[whole:], "little")
        value = value * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_for(key: bytes, partition_count: int) -> int:
    """The partition of a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
