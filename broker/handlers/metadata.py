"""Metadata v0-13: the brokers, and the leaders of partitions.

Rules: SEMANTICS 4. Metadata answers from the metadata cache alone; a missing topic is created
(`TopicCreator`), and the answer, once that is in ZooKeeper, says LEADER_NOT_AVAILABLE.
Answers for all topics are not cached: building one costs less than a client's parsing it.

Beyond Kafka: in Metadata, and nowhere else, a broker that is gone stays in the list of brokers for
DEPARTED_LISTED_MS; it leads nothing any more. librdkafka (2.16) ends the thread of a broker that is
not listed while it moves that broker's partitions to the leaders in the same answer, and partitions
that lose this race stay without a leader for up to two seconds.

Topics that the client may not describe are left out of all topics; asked for by name they are
refused whether they exist or not.

Mirrors `KafkaApis.handleTopicMetadataRequest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.metadata import (
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.errors import ErrorCode
from ...protocol.scala_texts import hash_ordered
from ...protocol.topics import INTERNAL_TOPICS
from ...protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ...replication.metadata_cache import (
        BrokerNode,
        MetadataCache,
        MetadataUpdate,
        PartitionState,
    )
    from ..network.request import Handler, Request
    from ..network.turns import Steps

NOT_ASKED = -2_147_483_648
DEPARTED_LISTED_MS = 1_000

# Of a topic's description.
PARTITIONS_PER_STEP = 100
# Of one request; more are created in the order in which they are named.
MAX_HASH_ORDERED = 100

Described = Generator[None, None, MetadataResponseTopic]

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(name: str) -> bool:
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def _may_describe(name: str, request: Request, *, is_logged: bool = True) -> bool:
    operation, kind = AclOperation.DESCRIBE, ResourceType.TOPIC
    return request.permits(operation, kind, name, is_logged=is_logged)


def may_create(name: str, request: Request) -> bool:
    """Topics of any name, or this one."""
    operation = AclOperation.CREATE
    return request.permits(
        operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=False
    ) or request.permits(operation, ResourceType.TOPIC, name)


def cluster_operations(request: Request) -> int:
    """The client's permitted operations on the cluster as bits, none if it may not describe it."""
    if not request.body.include_cluster_authorized_operations:
        return NOT_ASKED
    kind = ResourceType.CLUSTER
    if not request.permits(AclOperation.DESCRIBE, kind, CLUSTER_NAME):
        return 0
    return request.operations_on(kind, CLUSTER_NAME)


def _asked_for(
    asked: Iterable[MetadataRequestTopic],
) -> Generator[None, None, tuple[list[bytes], list[str], bool]]:
    """Ids and names, each once, and whether an entry has an id or no name. If there is any id,
    names are ignored."""
    ids: dict[bytes, None] = {}
    names: dict[str, None] = {}
    has_ids = False
    for topic in asked:
        if topic.topic_id != ZERO_UUID:
            ids[bytes(topic.topic_id)] = None
        if topic.name is not None:
            names[topic.name] = None
        has_ids = has_ids or topic.name is None or topic.topic_id != ZERO_UUID
        yield
    return list(ids), list(names), has_ids


def leader_of(cache: MetadataCache, state: PartitionState, listener: str) -> tuple[int, ErrorCode]:
    """The leader that a client at this listener can reach; -1 and the reason if there is none."""
    leader = state.leader
    if cache.broker_endpoint(leader, listener) is not None:
        return leader, ErrorCode.NONE
    if cache.is_alive(leader):
        return -1, ErrorCode.LISTENER_NOT_FOUND
    return -1, ErrorCode.LEADER_NOT_AVAILABLE


class TopicCreator(Protocol):
    """Creates topics that clients ask for; see `cluster.topic_creation`."""

    def auto_create(
        self,
        topic: str,
        before: Callable[[int], None] | None,
        complete: Callable[[ErrorCode], None],
    ) -> ErrorCode | None:
        """Start creating `topic`; the code to answer with, or None: `complete` gets it later."""
        ...


class _BeingCreated:
    """The topics that one request creates; `answer` is called when all have a result."""

    __slots__ = ("_answer", "_incomplete", "_topics")

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer
        self._topics: list[MetadataResponseTopic] = []
        self._incomplete = 0

    def __len__(self) -> int:
        return len(self._topics)

    def add(self, topic: MetadataResponseTopic) -> None:
        self._topics.append(topic)
        self._incomplete += 1

    def in_order(self) -> list[MetadataResponseTopic]:
        """The topics in Kafka's order of creation, that of a hash map: of two colliding names the
        first is created."""
        if len(self._topics) > MAX_HASH_ORDERED:
            return self._topics
        by_name = {topic.name or "": topic for topic in self._topics}
        return [by_name[name] for name in hash_ordered(by_name)]

    def on_created(self, topic: MetadataResponseTopic) -> Callable[[ErrorCode], None]:
        return partial(self.complete, topic)

    def complete(self, topic: MetadataResponseTopic, code: ErrorCode) -> None:
        topic.error_code = code
        self._incomplete -= 1
        if not self._incomplete:
            self._answer()


class MetadataHandler:
    __slots__ = ("_auto_create", "_cache", "_clock", "_departed")

    def __init__(
        self,
        cache: MetadataCache,
        *,
        topic_creator: TopicCreator | None = None,
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        """`topic_creator` is None when auto.create.topics.enable is false."""
        self._clock = clock
        self._departed: dict[int, tuple[BrokerNode, int]] = {}
        self._cache = cache
        self._auto_create = topic_creator

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.METADATA: self.metadata,
        }

    def metadata_changed(self, update: MetadataUpdate) -> None:
        until_ms = self._clock() + DEPARTED_LISTED_MS
        self._departed.update(
            {node.broker_id: (node, until_ms) for node in update.departed_brokers}
        )

    def _listed_brokers(self) -> Iterable[BrokerNode]:
        alive = self._cache.alive_brokers()
        if not self._departed:
            return alive.values()
        now_ms = self._clock()
        self._departed = {
            broker_id: (node, until_ms)
            for broker_id, (node, until_ms) in self._departed.items()
            if now_ms < until_ms and broker_id not in alive
        }
        return [*alive.values(), *(node for node, _ in self._departed.values())]

    def metadata(self, request: Request) -> Steps:
        body, version = request.body, request.api_version
        asked = body.topics
        topics: list[MetadataResponseTopic] = []
        created = _BeingCreated(lambda: self._respond(request, topics))
        if asked is None or (version == 0 and not asked):
            for name in list(self._cache.topics()):
                if _may_describe(name, request, is_logged=False):
                    topics.append((yield from self._topic(name, request)))
                yield
        else:
            ids, names, has_ids = yield from _asked_for(asked)
            if has_ids and 10 <= version < 12:
                request.fail(ErrorCode.INVALID_REQUEST)
                return
            for topic_id in ids:
                topics.append((yield from self._topic_by_id(topic_id, request)))
                yield
            for name in () if ids else names:
                topics.append((yield from self._topic_by_name(name, request, created)))
                yield
        if len(created):
            yield from self._create(request, created)
        else:
            self._respond(request, topics)

    def _respond(self, request: Request, topics: list[MetadataResponseTopic]) -> None:
        if request.connection.closed:
            return
        listener = request.peer.listener_name
        request.respond(
            MetadataResponse(
                brokers=[
                    MetadataResponseBroker(
                        node_id=node.broker_id,
                        host=endpoint.host,
                        port=endpoint.port,
                        rack=node.rack,
                    )
                    for node in self._listed_brokers()
                    if (endpoint := node.endpoint(listener)) is not None
                ],
                cluster_id=self._cache.cluster_id,
                controller_id=self._cache.controller_id,
                topics=topics,
                cluster_authorized_operations=cluster_operations(request),
            )
        )

    def _topic_by_id(self, topic_id: bytes, request: Request) -> Described:
        name = self._cache.topic_name(topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
            )
        if not _may_describe(name, request):
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id
            )
        return (yield from self._topic(name, request))

    def _topic_by_name(self, name: str, request: Request, created: _BeingCreated) -> Described:
        if not _may_describe(name, request):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=code, name=name)
        if self._cache.contains(name):
            return (yield from self._topic(name, request))
        return self._missing_topic(name, request, created)

    def _missing_topic(
        self, name: str, request: Request, created: _BeingCreated
    ) -> MetadataResponseTopic:
        wanted = request.body.allow_auto_topic_creation or request.api_version < 4
        is_internal = name in INTERNAL_TOPICS
        if wanted and self._auto_create is not None and not may_create(name, request):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal)
        topic = MetadataResponseTopic(name=name, is_internal=is_internal)
        if not is_legal_topic_name(name):
            topic.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif wanted and self._auto_create is not None:
            created.add(topic)
        else:
            topic.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if request.body.include_topic_authorized_operations:
            topic.topic_authorized_operations = request.operations_on(ResourceType.TOPIC, name)
        return topic

    def _create(self, request: Request, created: _BeingCreated) -> Steps:
        """Start to create the topics of `created`, which answers when all have a result."""
        assert self._auto_create is not None
        before = request.counts_mutations()
        for topic in created.in_order():
            code = self._auto_create.auto_create(
                topic.name or "", before, created.on_created(topic)
            )
            if code is not None:
                created.complete(topic, code)
            yield

    def _topic(self, name: str, request: Request) -> Described:
        listener, version = request.peer.listener_name, request.api_version
        topic = MetadataResponseTopic(
            name=name,
            topic_id=self._cache.topic_id(name),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
        )
        if request.body.include_topic_authorized_operations:
            topic.topic_authorized_operations = request.operations_on(ResourceType.TOPIC, name)
        for index, state in sorted(self._cache.partitions(name).items()):
            topic.partitions.append(self._partition(index, state, listener, version))
            if len(topic.partitions) % PARTITIONS_PER_STEP == 0:
                yield
        return topic

    def _partition(
        self, index: int, state: PartitionState, listener: str, version: int
    ) -> MetadataResponsePartition:
        cache = self._cache
        replicas, isr = list(state.replicas), list(state.isr)
        leader, code = leader_of(cache, state, listener)
        if version < 6 and code is ErrorCode.LISTENER_NOT_FOUND:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        if version == 0:
            # Only reachable brokers, and a code if that leaves one out (KAFKA-1647).
            reachable = [r for r in replicas if cache.broker_endpoint(r, listener) is not None]
            reachable_isr = [r for r in isr if cache.broker_endpoint(r, listener) is not None]
            missing = len(reachable) < len(replicas) or len(reachable_isr) < len(isr)
            if code is ErrorCode.NONE and missing:
                code = ErrorCode.REPLICA_NOT_AVAILABLE
            replicas, isr = reachable, reachable_isr
        return MetadataResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=list(state.offline_replicas),
        )
