"""Effects of the share coordinator, which its runtime performs in order."""

from typing import Any, NamedTuple


class Reply(NamedTuple):
    """Effect: answer the request that came with `token`."""

    token: Any
    response: Any


class Append(NamedTuple):
    """Effect: append a batch to a partition of `__share_group_state` with acks=all."""

    append_id: int
    partition: int
    batch: bytearray


class Prune(NamedTuple):
    """Effect: delete the records of a partition before the offset."""

    partition: int
    before_offset: int


Effect = Reply | Append | Prune
