"""Share sessions: the partitions that a member of a share group fetches, kept by the leader.

Job: a session is opened with epoch 0 and all partitions, goes on with epochs from 1 and changes,
and ends with epoch -1, or when its connection does. It also selects the partitions of an answer:
those with records, with an error, or new to the session.

Invariants: a member has one session, which ends with its connection; there are at most `limit` of
them, and nothing is evicted for a new one; a request with another epoch than the expected one
changes nothing. When the last connection of a group closes, the group is reported.

Goes beyond Kafka for connections with several sessions: all of them end with it, and it may open
sessions of MAX_GROUPS_OF_CONNECTION groups, since a group is kept as long as it lives.

Mirrors ShareSessionCache, ShareSession, CachedSharePartition, ShareSessionContext and
SharePartitionManager.newContext of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1
# Kafka's clients have one connection to a broker for each consumer.
MAX_GROUPS_OF_CONNECTION: Final = 100

SessionKey = tuple[str, str]  # group id, member id
PartitionKey = tuple[bytes, int]  # topic id, partition


class Wanted(NamedTuple):
    """A partition of a request; `topic` is None if no topic has the id."""

    topic_id: bytes
    partition: int
    topic: str | None

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition


def next_epoch(epoch: int) -> int:
    return 1 if epoch >= _MAX_EPOCH else epoch + 1


class ShareSession:
    """The session of one member: what it fetches, and the epoch of its next request."""

    __slots__ = ("connection", "epoch", "key", "must_answer", "partitions")

    def __init__(
        self, key: SessionKey, partitions: dict[PartitionKey, Wanted], connection: object
    ) -> None:
        self.key = key
        # In the order of fetching: what has given records goes to the end.
        self.partitions = partitions
        # Of them, those that the next answer names in any case.
        self.must_answer: set[PartitionKey] = set()
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.connection = connection


class ShareContext:
    """One request: the partitions to fetch, and later the ones to name in the answer."""

    __slots__ = ("_expected_epoch", "_session", "wanted")

    def __init__(self, wanted: Sequence[Wanted], session: ShareSession | None = None) -> None:
        self.wanted = wanted
        # Of a request that goes on with a session.
        self._session = session
        self._expected_epoch = 0 if session is None else session.epoch

    @property
    def is_superseded(self) -> bool:
        """The session has gone on meanwhile: the request was sent twice."""
        return self._session is not None and self._session.epoch != self._expected_epoch

    def selects(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether the answer names this partition."""
        session = self._session
        if session is None or key not in session.partitions:
            return True
        is_named = has_records or has_error or key in session.must_answer
        if has_error:
            # When the error is gone, the client is to learn that.
            session.must_answer.add(key)
        else:
            session.must_answer.discard(key)
        if has_records:
            session.partitions[key] = session.partitions.pop(key)
        return is_named


class ShareSessions:
    __slots__ = ("_connections", "_members", "evictions", "limit", "partition_count", "sessions")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.sessions: dict[SessionKey, ShareSession] = {}
        self.partition_count = 0
        # Of sessions that ended with their connection.
        self.evictions = 0
        # Of each connection: its sessions, and the groups of those that it has opened.
        self._connections: dict[object, tuple[set[SessionKey], set[str]]] = {}
        # Sessions by group.
        self._members: dict[str, int] = {}

    def begin(
        self,
        key: SessionKey,
        epoch: int,
        wanted: Sequence[Wanted],
        forgotten: Iterable[PartitionKey],
        *,
        acknowledges: bool,
        connection: object,
    ) -> ShareContext:
        """For a fetch; raises KafkaError."""
        if epoch == FINAL_EPOCH:
            self._find(key)
            return ShareContext(())
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            self.remove(key)
            partitions = {each.key: each for each in wanted}
            self._open(key, partitions, connection)
            return ShareContext(list(partitions.values()))
        session = self._expect(key, epoch)
        before = len(session.partitions)
        for each in wanted:
            if each.key not in session.partitions:
                session.partitions[each.key] = each
                session.must_answer.add(each.key)
        for forgotten_key in forgotten:
            session.partitions.pop(forgotten_key, None)
            session.must_answer.discard(forgotten_key)
        self.partition_count += len(session.partitions) - before
        session.epoch = next_epoch(epoch)
        return ShareContext(list(session.partitions.values()), session)

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """For a request that only acknowledges; raises KafkaError."""
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            self._find(key)
            return
        session = self._expect(key, epoch)
        session.epoch = next_epoch(epoch)

    def size_with(self, key: SessionKey, added: int) -> int:
        """The partitions of the session after a request that adds some."""
        session = self.sessions.get(key)
        return added + (0 if session is None else len(session.partitions))

    def _find(self, key: SessionKey) -> ShareSession:
        session = self.sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def _expect(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._find(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def knows(self, connection: object) -> bool:
        """Whether the connection has opened a session."""
        return connection in self._connections

    def _open(
        self, key: SessionKey, partitions: dict[PartitionKey, Wanted], connection: object
    ) -> None:
        group_id = key[0]
        keys, groups = self._connections.get(connection) or (set(), set())
        is_crowded = len(groups) >= MAX_GROUPS_OF_CONNECTION and group_id not in groups
        if len(self.sessions) >= self.limit or is_crowded:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.sessions[key] = ShareSession(key, partitions, connection)
        self.partition_count += len(partitions)
        self._members[group_id] = self._members.get(group_id, 0) + 1
        keys.add(key)
        groups.add(group_id)
        self._connections[connection] = keys, groups

    def remove(self, key: SessionKey) -> Mapping[PartitionKey, Wanted] | None:
        """End a session; its partitions."""
        session = self.sessions.pop(key, None)
        if session is None:
            return None
        self.partition_count -= len(session.partitions)
        group_id = key[0]
        self._members[group_id] -= 1
        if not self._members[group_id]:
            del self._members[group_id]
        known = self._connections.get(session.connection)
        if known is not None:
            known[0].discard(key)
        return session.partitions

    def disconnected(self, connection: object) -> tuple[list[SessionKey], list[str]]:
        """(the sessions to end, the groups that have no other sessions)."""
        keys, groups = self._connections.pop(connection, ((), ()))
        self.evictions += len(keys)
        ending: dict[str, int] = {}
        for key in keys:
            ending[key[0]] = ending.get(key[0], 0) + 1
        return sorted(keys), [
            group_id
            for group_id in sorted(groups)
            if self._members.get(group_id, 0) == ending.get(group_id, 0)
        ]
