"""Batches that this broker has built itself: a coordinator's records, transaction markers.

They need no validation. Apache Kafka scans them like a client's (LogValidator, with origin
COORDINATOR), which for a commit of one offset costs as much as the append.

Invariant: the written bytes equal those that `validate` would have made of the batch (a test
compares them). If the topic's config changes batches (codec, time of the append) or refuses them
(size), they are validated like all others.
"""

from __future__ import annotations

from ..protocol.records.batch import BatchHeader, assign_offset_and_epoch, read_batch_header
from ..protocol.records.compression import Compression
from .log_config import LogConfig


def stamp_own_batch(
    batch: bytearray, config: LogConfig, next_offset: int, leader_epoch: int
) -> BatchHeader | None:
    """Write offset and epoch into a v2 batch; its header, or None if it has to be validated."""
    target = config.target_compression
    if (
        (target is not None and target is not Compression.NONE)
        or config.log_append_time
        or len(batch) > config.max_message_bytes
    ):
        return None
    header = read_batch_header(batch)
    if header.magic != 2 or header.size_in_bytes != len(batch):
        return None
    if target is not None and header.is_compressed:
        return None
    assign_offset_and_epoch(batch, 0, next_offset, leader_epoch)
    return header
