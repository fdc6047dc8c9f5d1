"""Writing to topics: `Producer`, its arguments and its results."""

from ...protocol.murmur2 import murmur2
from .completion import ProducerMetrics
from .coordination import GroupMetadata, OffsetToCommit
from .delivery import Delivery, RecordMetadata
from .interceptors import Interceptor, OutgoingRecord
from .partitioners import partition_for
from .placement import Partitioner
from .producer import Producer

__all__ = [
    "Delivery",
    "GroupMetadata",
    "Interceptor",
    "OffsetToCommit",
    "OutgoingRecord",
    "Partitioner",
    "Producer",
    "ProducerMetrics",
    "RecordMetadata",
    "murmur2",
    "partition_for",
]
