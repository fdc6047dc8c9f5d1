"""The hash of the topics that a group is subscribed to: it differs if any of them has changed.

It goes into the group's record, so that a coordinator that loads the group notices what changed
meanwhile. Values are those of Kafka's Utils.computeTopicHash and computeGroupHash (KIP-1101): XXH3
over a stream in which numbers are little endian and a string is its UTF-16 units and their count.
"""

from collections.abc import Mapping
from struct import Struct

from xxhash import xxh3_64_intdigest

from .topics import Topic

_MAGIC = b"\0"
_INT32 = Struct("<i").pack
_UINT64 = Struct("<Q").pack
_SIGN = 1 << 63


def topic_hash(topic: Topic) -> int:
    """The hash of a topic's id, name, partitions and racks, as a signed 64-bit number."""
    parts = [
        _MAGIC,
        topic.topic_id[7::-1],
        topic.topic_id[:7:-1],
        _string(topic.name),
        _INT32(topic.partition_count),
    ]
    for partition in range(topic.partition_count):
        parts.append(_INT32(partition))
        for rack in sorted(topic.racks[partition] if topic.racks else ()):
            parts += (_INT32(_units(rack)), _string(rack))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """The hash of a group's topics, from the hashes by name; 0 without topics."""
    if not topic_hashes:
        return 0
    data = b"".join(_UINT64(topic_hashes[name] % (1 << 64)) for name in sorted(topic_hashes))
    return _signed(xxh3_64_intdigest(data))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _string(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return data + _INT32(len(data) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= _SIGN else value
