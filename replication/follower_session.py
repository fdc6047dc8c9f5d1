"""The follower's side of an incremental fetch session (KIP-227).

Job: remember the leader's knowledge of our partitions, so that a request carries only the changes
since the last one and the partitions to forget. One session to one leader, one request at a time.

Invariants: after a request was answered well, the leader's view is `_sent`, whichever form the
request had; after any trouble the next request is a full one that closes the session the leader
may still have. Topic ids are used if all partitions have one (Fetch v13+); a session that must
change between names and ids begins anew.

Mirrors org.apache.kafka.clients.FetchSessionHandler.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ..protocol.apis.fetch import (
    FetchPartition,
    FetchResponse,
    FetchResponsePartitionData,
    FetchTopic,
    ForgottenTopic,
)
from ..protocol.errors import ErrorCode
from ..protocol.topics import TopicPartition
from .fetch_session import INITIAL_EPOCH, NO_SESSION, SessionKey, next_epoch
from .types import ZERO_TOPIC_ID


class Wanted(NamedTuple):
    """One partition as the next fetch asks for it."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """The session's part of a fetch request."""

    session_id: int
    epoch: int
    uses_topic_ids: bool
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]

    @property
    def is_full(self) -> bool:
        return self.epoch == INITIAL_EPOCH


class FollowerSession:
    __slots__ = ("_epoch", "_id", "_is_refused", "_keys", "_sent", "_uses_topic_ids")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._is_refused = False
        self._uses_topic_ids = True
        self._sent: dict[TopicPartition, Wanted] = {}
        # How the answer names the partitions.
        self._keys: dict[SessionKey, TopicPartition] = {}

    def __len__(self) -> int:
        """The partitions that the leader looks at."""
        return len(self._sent)

    @property
    def is_established(self) -> bool:
        return self._epoch != INITIAL_EPOCH

    @property
    def needs_no_session(self) -> bool:
        """Established, or the leader has no room for a session and will not open one."""
        return self._is_refused or self._epoch != INITIAL_EPOCH

    def sent(self, key: TopicPartition) -> Wanted | None:
        """The last fetch parameters sent to the leader for a partition."""
        return self._sent.get(key)

    def build(
        self,
        changed: Mapping[TopicPartition, Wanted],
        gone: Collection[TopicPartition],
    ) -> SessionRequest:
        """The next request: `changed` are new or have moved, `gone` are to be forgotten."""
        sent = self._sent
        if self.is_established and not gone and changed.keys() <= sent.keys():
            topics = self._moved(changed)
            if topics is not None:
                return SessionRequest(self._id, self._epoch, self._uses_topic_ids, topics, [])
        forgotten = [sent.pop(key) for key in gone if key in sent and key not in changed]
        news = {key: wanted for key, wanted in changed.items() if sent.get(key) != wanted}
        for key, wanted in news.items():
            known = sent.get(key)
            if known is not None and known.topic_id != wanted.topic_id and self._uses_topic_ids:
                forgotten.append(known)  # deleted and made anew under the same name
            sent[key] = wanted
        uses_topic_ids = all(wanted.topic_id != ZERO_TOPIC_ID for wanted in news.values())
        if not self.is_established:
            uses_topic_ids = all(wanted.topic_id != ZERO_TOPIC_ID for wanted in sent.values())
        elif uses_topic_ids != self._uses_topic_ids and news:
            self._epoch = INITIAL_EPOCH
            uses_topic_ids = all(wanted.topic_id != ZERO_TOPIC_ID for wanted in sent.values())
        if not self.is_established:
            self._uses_topic_ids = uses_topic_ids
            self._keys = {self._session_key(wanted): key for key, wanted in sent.items()}
            return SessionRequest(
                self._id, INITIAL_EPOCH, uses_topic_ids, _by_topic(sent.values()), []
            )
        for wanted in forgotten:
            self._keys.pop(self._session_key(wanted), None)
        for key, wanted in news.items():
            self._keys[self._session_key(wanted)] = key
        return SessionRequest(
            self._id,
            self._epoch,
            self._uses_topic_ids,
            _by_topic(news.values()),
            _forgotten(forgotten),
        )

    def _moved(self, changed: Mapping[TopicPartition, Wanted]) -> list[FetchTopic] | None:
        """The usual change: the same partitions, at other offsets. None if it is more than that."""
        sent = self._sent
        for key, wanted in changed.items():
            if sent[key].topic_id != wanted.topic_id:
                return None
        sent.update(changed)
        return _by_topic(changed.values()) if changed else []

    def accept(
        self, request: SessionRequest, response: FetchResponse
    ) -> list[tuple[TopicPartition, FetchResponsePartitionData]] | None:
        """The partitions of an answer; None if the session is broken and was reset."""
        error = response.error_code
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return None
        if error:
            self.reset()
            return None
        data = self._data(response)
        if data is None or (
            request.is_full and len(data) < len(self._sent) and not response.throttle_time_ms
        ):
            self.reset()
            return None
        if request.is_full:
            self._id = response.session_id
            self._is_refused = self._id == NO_SESSION
            self._epoch = next_epoch(INITIAL_EPOCH) if self._id != NO_SESSION else INITIAL_EPOCH
        elif response.session_id == self._id:
            self._epoch = next_epoch(self._epoch)
        else:  # The leader has closed it.
            self._id = NO_SESSION
            self._epoch = INITIAL_EPOCH
        return data

    def reset(self) -> None:
        """An answer is missing: close the session that the leader may still have and name
        everything anew."""
        self._epoch = INITIAL_EPOCH

    def _data(
        self, response: FetchResponse
    ) -> list[tuple[TopicPartition, FetchResponsePartitionData]] | None:
        found = []
        keys = self._keys
        for topic in response.responses:
            name = bytes(topic.topic_id) if self._uses_topic_ids else topic.topic
            for data in topic.partitions:
                key = keys.get((name, data.partition_index))
                if key is None:
                    return None
                found.append((key, data))
        return found

    def _session_key(self, wanted: Wanted) -> SessionKey:
        return (wanted.topic_id if self._uses_topic_ids else wanted.topic), wanted.partition


def _by_topic(entries: Iterable[Wanted]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for wanted in entries:
        topic = topics.get((wanted.topic, wanted.topic_id))
        if topic is None:
            topic = FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[])
            topics[wanted.topic, wanted.topic_id] = topic
        topic.partitions.append(
            FetchPartition(
                partition=wanted.partition,
                current_leader_epoch=wanted.current_leader_epoch,
                fetch_offset=wanted.fetch_offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                log_start_offset=wanted.log_start_offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(entries: Iterable[Wanted]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for wanted in entries:
        topic = topics.get((wanted.topic, wanted.topic_id))
        if topic is None:
            topic = ForgottenTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[])
            topics[wanted.topic, wanted.topic_id] = topic
        topic.partitions.append(wanted.partition)
    return list(topics.values())
