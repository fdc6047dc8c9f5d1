"""ShareFetch v1-2 and ShareAcknowledge v1-2: records for members of share groups (KIP-932).

Versions: v2 brought the mode of acquisition (KIP-1206) and acknowledgements that renew locks
(KIP-1222).

A fetch may acknowledge as well; it is answered when records were acquired, or its time is over, and
the acknowledgements are stored. A fetch that renews locks acquires nothing. Errors of
acknowledgements stand at their partitions. A consumer that is over its quota gets no records.

Mirrors KafkaApis.handleShareFetchRequest and handleShareAcknowledgeRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis import share_acknowledge, share_fetch
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.features import Feature, Levels
from ...replication.share.acknowledging import Acknowledgement, is_valid
from ...replication.share.acquiring import AcquireMode, Asked
from ...replication.share.fetching import AcquiredPart, Acquisition, ShareFetch
from ...replication.share.sessions import (
    FINAL_EPOCH,
    PartitionKey,
    SessionKey,
    ShareContext,
    Wanted,
)
from ...replication.types import CONSUMER_REPLICA_ID, FetchParams
from ..share.share_leader import ShareLeader
from .fetch import MAX_UNKNOWN_PARTITIONS, PARTITION_BYTES, RESPONSE_BYTES
from .leaders import current_leader

if TYPE_CHECKING:
    from ...replication.replica_manager import ReplicaManager
    from ..network.request import Handler, Request
    from ..network.turns import Steps

MAX_MEMBER_ID_CHARS: Final = 36
_RENEWS_SINCE: Final = 2
_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
# A member has at most as many records of a partition as group.share.max.partition.max.record.locks
# may allow.
MAX_BATCHES: Final = 10_000
_PARTITIONS_OF_STEP: Final = 1000
_INVALID: Final = Acknowledgement(0, -1, ())
_FETCH_KEEPS: Final = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")

Acknowledgements = dict[Wanted, list[Acknowledgement]]
# The result of each partition's acknowledgements.
Outcomes = dict[PartitionKey, tuple[ErrorCode, str | None]]


class ShareHandlers:
    __slots__ = ("_leader", "_levels", "_manager", "_metadata")

    def __init__(
        self,
        leader: ShareLeader,
        manager: ReplicaManager,
        levels: Callable[[], Levels],
    ) -> None:
        """`levels` are those of the finalized features."""
        self._leader = leader
        self._manager = manager
        self._metadata = manager.metadata
        self._levels = levels

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.SHARE_FETCH: self.fetch, ApiKey.SHARE_ACKNOWLEDGE: self.acknowledge}

    # ShareFetch

    def fetch(self, request: Request) -> Steps:
        body: share_fetch.ShareFetchRequest = request.body
        session = self._session(request)
        if session is None:
            return
        is_renewal = request.api_version >= _RENEWS_SINCE and body.is_renew_ack
        if is_renewal and (wrong := [name for name in _FETCH_KEEPS if getattr(body, name)]):
            names = ", ".join(map(_as_in_java, wrong))
            request.fail(
                ErrorCode.INVALID_REQUEST, f"{names} must be set to 0, if isRenewAck is true."
            )
            return
        wanted: list[Wanted] = []
        acknowledged: Acknowledgements = {}
        yield from self._read(body.topics, wanted, acknowledged)
        forgotten = yield from _forgotten(body)
        sessions = self._leader.sessions
        limit = MAX_UNKNOWN_PARTITIONS + 2 * self._metadata.total_partition_count()
        if sessions.size_with(session, len(wanted)) > limit:
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        is_known = sessions.knows(request.connection)
        try:
            context = sessions.begin(
                session,
                body.share_session_epoch,
                wanted,
                forgotten,
                acknowledges=any(acknowledged.values()),
                connection=request.connection,
            )
        except KafkaError as error:
            if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                self._leader.hold(_Refusal(self._leader, request), session[0], body.max_wait_ms)
            else:
                request.fail(error.code, error.message)
            return
        if not is_known and sessions.knows(request.connection):
            request.connection.add_wait(_SessionWait(self._leader, request))
        exchange = _Exchange(self, request, session, context)
        if any(acknowledged.values()):
            yield from exchange.acknowledge(acknowledged, is_renewal)
        exchange.fetch(is_renewal)

    # ShareAcknowledge

    def acknowledge(self, request: Request) -> Steps:
        body: share_acknowledge.ShareAcknowledgeRequest = request.body
        session = self._session(request)
        if session is None:
            return
        try:
            self._leader.sessions.acknowledge(session, body.share_session_epoch)
        except KafkaError as error:
            request.fail(error.code, error.message)
            return
        is_renewal = request.api_version >= _RENEWS_SINCE and body.is_renew_ack
        acknowledged: Acknowledgements = {}
        yield from self._read(body.topics, [], acknowledged)
        exchange = _Exchange(self, request, session, None)
        yield from exchange.acknowledge(acknowledged, is_renewal)
        exchange.end_if_done()

    # Both

    def _session(self, request: Request) -> SessionKey | None:
        """None: the request is refused."""
        body = request.body
        if not self._levels().get(Feature.SHARE):
            request.fail(ErrorCode.UNSUPPORTED_VERSION)
        elif body.group_id is None:
            request.fail(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
        elif not request.permits(AclOperation.READ, ResourceType.GROUP, body.group_id):
            request.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif not body.member_id or len(body.member_id) > MAX_MEMBER_ID_CHARS:
            request.fail(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
        else:
            return body.group_id, body.member_id
        return None

    def _read(
        self, topics: Sequence[Any], wanted: list[Wanted], acknowledged: Acknowledgements
    ) -> Steps:
        """The partitions of a request, and what it acknowledges of each; the last one counts."""
        name_of = self._metadata.topic_name
        for topic in topics:
            topic_id = bytes(topic.topic_id)
            name = name_of(topic_id)
            for partition in topic.partitions:
                each = Wanted(topic_id, partition.partition_index, name)
                wanted.append(each)
                batches = partition.acknowledgement_batches
                found = acknowledged[each] = []
                if len(batches) > MAX_BATCHES:
                    found.append(_INVALID)
                    continue
                found += [
                    Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                    for batch in batches
                ]
                yield
            yield

    def named(self, wanted: Wanted) -> Wanted:
        """With the topic's name, which this broker may have learned since the session began."""
        if wanted.topic is not None:
            return wanted
        return wanted._replace(topic=self._metadata.topic_name(wanted.topic_id))

    def topic_error(self, request: Request, wanted: Wanted) -> ErrorCode:
        """Why the partition can not be read, or acknowledged, by this client."""
        if wanted.topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not request.permits(AclOperation.READ, ResourceType.TOPIC, wanted.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self._metadata.partition_state(wanted.topic, wanted.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    @property
    def leader(self) -> ShareLeader:
        return self._leader

    @property
    def manager(self) -> ReplicaManager:
        return self._manager


class _SessionWait:
    """A connection has this until it closes: its session ends then."""

    __slots__ = ("_connection", "_leader")

    def __init__(self, leader: ShareLeader, request: Request) -> None:
        self._leader = leader
        self._connection = request.connection

    def hurry(self) -> None:
        """The session ends with the connection."""

    def cancel(self) -> None:
        self._leader.disconnected(self._connection)


class _Refusal:
    """A fetch without a session, since there are too many: its client would ask again at once."""

    __slots__ = ("_fetch", "_leader", "_request")

    def __init__(self, leader: ShareLeader, request: Request) -> None:
        self._leader = leader
        self._request = request
        self._fetch: ShareFetch | None = None

    def parked(self, fetch: ShareFetch) -> None:
        self._fetch = fetch
        self._request.connection.add_wait(self)

    def complete(self, results: Acquisition) -> None:
        if self._fetch is not None:
            self._request.connection.remove_wait(self)
        self._request.fail(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def hurry(self) -> None:
        if self._fetch is not None:
            self._leader.hurry(self._fetch)

    def cancel(self) -> None:
        if self._fetch is not None:
            self._leader.cancel(self._fetch)


class _Exchange:
    """One request: it is answered when its fetch is over and its acknowledgements are stored."""

    __slots__ = (
        "_context",
        "_fetch",
        "_handlers",
        "_is_parked",
        "_open",
        "_refused",
        "_request",
        "_results",
        "_session",
        "outcomes",
    )

    def __init__(
        self,
        handlers: ShareHandlers,
        request: Request,
        session: SessionKey,
        context: ShareContext | None,
    ) -> None:
        self._handlers = handlers
        self._request = request
        self._session = session
        # Of a ShareFetch.
        self._context = context
        self._fetch: ShareFetch | None = None
        self._is_parked = False
        # Partitions that may not be fetched.
        self._refused: dict[PartitionKey, ErrorCode] = {}
        self._results: Acquisition | None = None
        self.outcomes: Outcomes = {}
        # Acknowledgements that are not stored yet.
        self._open = 0

    # Acknowledgements

    def acknowledge(self, asked: Acknowledgements, is_renewal: bool) -> Steps:
        handlers, request = self._handlers, self._request
        may_renew = request.api_version >= _RENEWS_SINCE
        self._open += 1
        for wanted, batches in asked.items():
            key = wanted.key
            yield
            if wanted.topic is None:
                self.outcomes[key] = ErrorCode.UNKNOWN_TOPIC_ID, None
                continue
            if not is_valid(batches, may_renew=may_renew, is_renewal=is_renewal):
                self.outcomes[key] = ErrorCode.INVALID_REQUEST, None
                continue
            error = handlers.topic_error(request, wanted)
            if error or not batches:
                self.outcomes[key] = error, None
                continue
            self._open += 1

            def done(code: ErrorCode, message: str | None, key: PartitionKey = key) -> None:
                self.outcomes[key] = code, message
                self._open -= 1
                self.end_if_done()

            handlers.leader.acknowledge(self._session, wanted, batches, done)
        self._open -= 1

    # The fetch

    def fetch(self, is_renewal: bool) -> None:
        context, request, handlers = self._context, self._request, self._handlers
        assert context is not None
        body: share_fetch.ShareFetchRequest = request.body
        wanted = []
        for each in map(handlers.named, context.wanted):
            error = handlers.topic_error(request, each)
            if error:
                self._refused[each.key] = error
            else:
                wanted.append(each)
        max_bytes = min(body.max_bytes, handlers.manager.config.fetch_max_bytes)
        if request.is_metered:
            max_bytes = int(min(max_bytes, request.most_to_fetch()))
        if is_renewal or not wanted or body.max_records <= 0 or max_bytes <= 0:
            if is_renewal:
                self._refused.clear()
            self.complete({})
            return
        settings = handlers.leader.settings_of(self._session[0])
        start = body.share_session_epoch % len(wanted)
        mode = AcquireMode.BATCH_OPTIMIZED
        if body.share_acquire_mode == AcquireMode.RECORD_LIMIT:
            mode = AcquireMode.RECORD_LIMIT
        self._fetch = fetch = ShareFetch(
            self._session[0],
            Asked(self._session[1], mode, body.batch_size, body.max_records),
            FetchParams(
                CONSUMER_REPLICA_ID,
                body.max_wait_ms,
                min(body.min_bytes, max_bytes),
                max_bytes,
                settings.isolation,
            ),
            wanted[start:] + wanted[:start],
        )
        handlers.leader.fetch(fetch, self)

    def parked(self, fetch: ShareFetch) -> None:
        self._is_parked = True
        self._request.connection.add_wait(self)

    def complete(self, results: Acquisition) -> None:
        if self._is_parked:
            self._is_parked = False
            self._request.connection.remove_wait(self)
        self._results = results
        self.end_if_done()

    def hurry(self) -> None:
        if self._fetch is not None:
            self._handlers.leader.hurry(self._fetch)

    def cancel(self) -> None:
        if self._fetch is not None:
            self._handlers.leader.cancel(self._fetch)

    # The answer

    def end_if_done(self) -> None:
        if self._open or (self._context is not None and self._results is None):
            return
        request = self._request
        if request.answered:
            return
        if self._context is None:
            self._answer_acknowledge()
        else:
            self._answer_fetch(self._context, self._results or {})
        if request.body.share_session_epoch == FINAL_EPOCH:
            self._handlers.leader.end_session(self._session)

    def _answer_fetch(self, context: ShareContext, results: Acquisition) -> None:
        request = self._request
        parts = dict(results)
        messages: dict[PartitionKey, str | None] = {}
        for key, code in self._refused.items():
            parts[key] = AcquiredPart(code, b"", ())
        if self._fetch is not None:
            for key, error in self._fetch.errors.items():
                parts[key] = AcquiredPart(error.code, b"", ())
        size = sum(len(part.records) + PARTITION_BYTES for part in parts.values() if part.records)
        error_code = ErrorCode.NONE
        if request.is_metered and request.charge_fetch(RESPONSE_BYTES + size):
            parts = {}
        if context.is_superseded:
            error_code, parts = ErrorCode.INVALID_SHARE_SESSION_EPOCH, {}
        topics: dict[bytes, list[share_fetch.PartitionData]] = {}
        endpoints: dict[int, share_fetch.NodeEndpoint] = {}
        outcomes = self.outcomes
        for key, part in parts.items():
            has_error = bool(part.error_code)
            if not context.selects(key, has_records=bool(part.records), has_error=has_error):
                continue
            data = share_fetch.PartitionData(
                partition_index=key[1],
                error_code=part.error_code,
                error_message=messages.get(key),
                records=part.records,
                acquired_records=[
                    share_fetch.AcquiredRecords(
                        first_offset=first, last_offset=last, delivery_count=count
                    )
                    for first, last, count in part.acquired
                ],
            )
            if part.error_code in _LEADER_ERRORS:
                self._name_leader(key, data, endpoints, share_fetch)
            if key in outcomes:
                data.acknowledge_error_code, data.acknowledge_error_message = outcomes.pop(key)
            topics.setdefault(key[0], []).append(data)
        for key, (code, message) in outcomes.items():
            data = share_fetch.PartitionData(
                partition_index=key[1],
                acknowledge_error_code=code,
                acknowledge_error_message=message,
                records=b"",
            )
            if code in _LEADER_ERRORS:
                self._name_leader(key, data, endpoints, share_fetch)
            topics.setdefault(key[0], []).append(data)
        request.respond(
            share_fetch.ShareFetchResponse(
                error_code=error_code,
                acquisition_lock_timeout_ms=self._lock_timeout_ms,
                responses=[
                    share_fetch.ShareFetchableTopicResponse(topic_id=topic_id, partitions=found)
                    for topic_id, found in topics.items()
                ],
                node_endpoints=list(endpoints.values()),
            )
        )

    def _answer_acknowledge(self) -> None:
        topics: dict[bytes, list[share_acknowledge.PartitionData]] = {}
        endpoints: dict[int, share_acknowledge.NodeEndpoint] = {}
        for key, (code, message) in self.outcomes.items():
            data = share_acknowledge.PartitionData(
                partition_index=key[1], error_code=code, error_message=message
            )
            if code in _LEADER_ERRORS:
                self._name_leader(key, data, endpoints, share_acknowledge)
            topics.setdefault(key[0], []).append(data)
        self._request.respond(
            share_acknowledge.ShareAcknowledgeResponse(
                acquisition_lock_timeout_ms=self._lock_timeout_ms,
                responses=[
                    share_acknowledge.ShareAcknowledgeTopicResponse(
                        topic_id=topic_id, partitions=found
                    )
                    for topic_id, found in topics.items()
                ],
                node_endpoints=list(endpoints.values()),
            )
        )

    @property
    def _lock_timeout_ms(self) -> int:
        settings = self._handlers.leader.settings_of(self._session[0])
        return settings.limits.record_lock_duration_ms

    def _name_leader(
        self, key: PartitionKey, data: Any, endpoints: dict[int, Any], messages: Any
    ) -> None:
        """The leader of a partition that is not led here, and its address (as KIP-951)."""
        manager = self._handlers.manager
        topic = manager.metadata.topic_name(key[0])
        if topic is None:
            return
        leader = current_leader(manager, (topic, key[1]), self._request.peer.listener_name)
        if leader is None:
            return
        data.current_leader = messages.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        if leader.host is not None:
            endpoints[leader.leader_id] = messages.NodeEndpoint(
                node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack
            )


def _forgotten(body: share_fetch.ShareFetchRequest) -> Generator[None, None, set[PartitionKey]]:
    found: set[PartitionKey] = set()
    for topic in body.forgotten_topics_data:
        topic_id = bytes(topic.topic_id)
        for start in range(0, len(topic.partitions), _PARTITIONS_OF_STEP):
            part = topic.partitions[start : start + _PARTITIONS_OF_STEP]
            found.update((topic_id, partition) for partition in part)
            yield
        yield
    return found


def _as_in_java(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
