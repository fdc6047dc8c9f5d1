"""Answers to the commonest OffsetCommit, encoded once and then only numbered.

A commit of one partition that succeeds is answered with the same bytes each time but for the
correlation id. Any other answer goes through the codec.

Invariant: byte for byte what the codec would write; a test compares them in all versions.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...protocol.api import ApiKey
from ...protocol.framing import encode_response
from ...protocol.messages.group_offsets import OffsetCommitResponse

MAX_ANSWERS = 10_000
# size, correlation id
_PREFIX = Struct(">ii")


class CommitAnswers:
    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By version, topic and partition: the number of bytes behind the size, and those behind
        # the correlation id.
        self._known: dict[tuple[int, str, int], tuple[int, bytes]] = {}

    def frame(
        self, version: int, correlation_id: int, response: OffsetCommitResponse
    ) -> bytes | None:
        """The whole frame of an answer, or None if it is not of that kind."""
        topics = response.topics
        if len(topics) != 1:
            return None
        topic = topics[0]
        partitions = topic.partitions
        if len(partitions) != 1 or partitions[0].error_code or response.throttle_time_ms:
            return None
        place = (version, topic.name, partitions[0].partition_index)
        known = self._known.get(place)
        if known is None:
            known = self._add(place, response)
        return _PREFIX.pack(known[0], correlation_id) + known[1]

    def _add(
        self, place: tuple[int, str, int], response: OffsetCommitResponse
    ) -> tuple[int, bytes]:
        if len(self._known) >= MAX_ANSWERS:
            self._known.clear()
        parts: Any = encode_response(ApiKey.OFFSET_COMMIT, place[0], 0, response)
        frame = b"".join(parts)
        known = self._known[place] = (len(frame) - 4, frame[_PREFIX.size :])
        return known
