"""A fetch session with one broker: selects the partitions that a request must name; pure.

Invariants: the broker's session equals `_known` once it has answered; epochs go 1, 2, ... and start
again at 1; after a lost answer the session is ended, and a full request begins another.

Mirrors: FetchSessionHandler of the Java client (KIP-227, KIP-516).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...protocol.apis.fetch import FetchPartition, FetchTopic, ForgottenTopic
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0  # a full request, which may begin a session
LAST_EPOCH: Final = -1  # a request that ends it
MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """The fetch parameters of a partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """The session's fields of a Fetch request."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """See the module."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """All partitions in a full request; otherwise those that have changed, and those to
        forget."""
        if self._epoch == FIRST_EPOCH:
            new = dict(wanted)
            gone: list[TopicPartition] = []
        else:
            known = self._known
            new = {tp: each for tp, each in wanted.items() if known.get(tp) != each}
            gone = [
                tp
                for tp, each in known.items()
                if tp not in wanted or wanted[tp].topic_id != each.topic_id
            ]
        forgotten = _forgotten([(tp, self._known[tp].topic_id) for tp in gone])
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, _topics(new), forgotten)

    def on_answer(self, code: ErrorCode, session_id: int) -> bool:
        """Whether the answer belongs to the request; if not, ask again."""
        if code != ErrorCode.NONE:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = FIRST_EPOCH
            return False
        if self._epoch == FIRST_EPOCH:
            self._id = session_id
            if session_id == NO_SESSION:  # the broker has no room for a session, or no support
                return True
        self._epoch = self._epoch + 1 if self._epoch < MAX_EPOCH else 1
        return True

    def end(self) -> SessionRequest | None:
        """The request that ends the session, if the broker keeps one; it fetches nothing."""
        if self._id == NO_SESSION:
            return None
        ended, self._id, self._epoch, self._known = self._id, NO_SESSION, FIRST_EPOCH, {}
        return SessionRequest(ended, LAST_EPOCH, [], [])

    def on_lost(self) -> None:
        """No answer arrived. The next request ends this session and begins another."""
        self._epoch = FIRST_EPOCH


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, partition), each in wanted.items():
        if topic not in topics:
            topics[topic] = FetchTopic(topic=topic, topic_id=each.topic_id, partitions=[])
        topics[topic].partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                partition_max_bytes=each.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Sequence[tuple[TopicPartition, bytes]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (topic, partition), topic_id in partitions:
        if (topic, topic_id) not in topics:
            topics[topic, topic_id] = ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[])
        topics[topic, topic_id].partitions.append(partition)
    return list(topics.values())
