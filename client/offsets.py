"""The offset in a ListOffsets response of any version."""

from __future__ import annotations

from ..protocol.apis.list_offsets import ListOffsetsPartitionResponse


def offset_of(part: ListOffsetsPartitionResponse) -> int:
    """The offset, -1 for none. Version 0, of brokers before 0.10.1, has a list of at most one."""
    return part.old_style_offsets[0] if part.old_style_offsets else part.offset
