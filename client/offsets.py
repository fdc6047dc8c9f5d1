"""What a broker of any version says where a partition's records are."""

from __future__ import annotations

from ..protocol.apis.list_offsets import ListOffsetsPartitionResponse


def offset_of(part: ListOffsetsPartitionResponse) -> int:
    """-1: there is none. In version 0, of brokers before 0.10.1, it is a list of one."""
    return part.old_style_offsets[0] if part.old_style_offsets else part.offset
