"""Drives the group coordinator: answers, appends to `__consumer_offsets`, notifications.

Job: perform the effects of the groups' machine, give it the outcomes of its appends, and run what
handlers have to wait for. The rest of its life (effects in order, timers, loading and unloading)
is that of every coordinator: `coordinator_runtime`.

Invariants: every Append with acks is reported back once; one without is only looked at.

Mirrors the scheduling in Kafka's GroupMetadataManager and GroupCoordinatorAdapter.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ...coordinator.group.commit_attempt import client_error, partition_errors
from ...coordinator.group.commit_plan import CommitPlan
from ...coordinator.group.commits import RepeatedCommit
from ...coordinator.group.consumer.config import ConsumerGroupConfig, MigrationPolicy
from ...coordinator.group.consumer.consumer_group import ConsumerGroupState
from ...coordinator.group.consumer.target_assignment import ASSIGNORS
from ...coordinator.group.consumer.topics import TopicImage
from ...coordinator.group.core import (
    ACKS_NONE,
    Append,
    Effect,
    GroupConfig,
    InitializeStates,
    Reply,
)
from ...coordinator.group.group_coordinator import GroupCoordinator
from ...coordinator.group.share.config import ShareGroupConfig
from ...coordinator.group.states import GroupState
from ...coordinator.group.streams.config import StreamsGroupConfig
from ...coordinator.group.streams.streams_group import StreamsGroupState
from ...protocol.api import ApiKey
from ...protocol.apis.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.errors import ErrorCode
from ...protocol.framing import encode_response
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.compression import Compression
from ...protocol.topics import OFFSETS_TOPIC, TopicPartition
from ...replication.types import ProduceResult, ProduceResults, ReplicatedAppend
from ...storage.append_info import AppendOrigin
from ..config.group_configs import broker_value
from ..replicas.applied_replicas import AppliedReplicas
from .coordinator_runtime import CoordinatorRuntime, internal_partition_count
from .persister import Persister

if TYPE_CHECKING:
    from ..config.kafka_config import KafkaConfig
    from ..network.request import Request
    from ..observability.metrics import BrokerMetrics
    from ..zk.zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.groups")

_MS_PER_MINUTE: Final = 60_000
_ASSIGNOR_CLASSES: Final = {"UniformAssignor": "uniform", "RangeAssignor": "range"}
_ANSWER_HEAD: Final = Struct(">ii")  # size, correlation id
_CORRELATION_ID_BYTES: Final = 4


def group_config(config: KafkaConfig) -> GroupConfig:
    """The coordinator's part of the broker's configuration."""
    value = config.value
    return GroupConfig(
        min_session_timeout_ms=value("group.min.session.timeout.ms"),
        max_session_timeout_ms=value("group.max.session.timeout.ms"),
        max_size=value("group.max.size"),
        initial_rebalance_delay_ms=value("group.initial.rebalance.delay.ms"),
        offset_metadata_max_bytes=value("offset.metadata.max.bytes"),
        offsets_retention_ms=value("offsets.retention.minutes") * _MS_PER_MINUTE,
        offsets_retention_check_interval_ms=value("offsets.retention.check.interval.ms"),
        offsets_topic_compression=Compression(value("offsets.topic.compression.codec")),
        commit_required_acks=value("offsets.commit.required.acks"),
        proves=value("pybroker.coordinator.proof"),
    )


def consumer_group_config(config: KafkaConfig) -> ConsumerGroupConfig:
    """The part for groups of the consumer protocol. Assignors are named by name or Java class."""
    value = config.value
    named = [name.rpartition(".")[2] for name in value("group.consumer.assignors")]
    assignors = tuple(_ASSIGNOR_CLASSES.get(name, name) for name in named)
    return ConsumerGroupConfig(
        session_timeout_ms=value("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=value("group.consumer.heartbeat.interval.ms"),
        max_size=value("group.consumer.max.size"),
        assignors=tuple(name for name in assignors if name in ASSIGNORS) or tuple(ASSIGNORS),
        assignment_interval_ms=value("group.consumer.assignment.interval.ms"),
        regex_refresh_interval_ms=value("group.consumer.regex.refresh.interval.ms"),
        migration_policy=MigrationPolicy(
            broker_value(config, "group.consumer.migration.policy").lower()
        ),
    )


def share_group_config(config: KafkaConfig) -> ShareGroupConfig:
    """The part for share groups, whose one assignor is known."""
    value = config.value
    return ShareGroupConfig(
        session_timeout_ms=value("group.share.session.timeout.ms"),
        heartbeat_interval_ms=value("group.share.heartbeat.interval.ms"),
        max_size=value("group.share.max.size"),
        assignment_interval_ms=value("group.share.assignment.interval.ms"),
    )


def streams_group_config(config: KafkaConfig) -> StreamsGroupConfig:
    """The part for the groups of Streams applications."""
    value = config.value
    return StreamsGroupConfig(
        session_timeout_ms=value("group.streams.session.timeout.ms"),
        heartbeat_interval_ms=value("group.streams.heartbeat.interval.ms"),
        max_size=value("group.streams.max.size"),
        num_standby_replicas=value("group.streams.num.standby.replicas"),
        initial_rebalance_delay_ms=value("group.streams.initial.rebalance.delay.ms"),
        assignment_interval_ms=value("group.streams.assignment.interval.ms"),
    )


async def offsets_partition_count(zookeeper: ZooKeeperClient, config: KafkaConfig) -> int:
    """Partitions of the offsets topic."""
    configured = config.get_int("offsets.topic.num.partitions")
    return await internal_partition_count(zookeeper, OFFSETS_TOPIC, configured)


class GroupRuntime(CoordinatorRuntime[GroupCoordinator, Effect]):
    """One broker's group coordinator and everything that it needs of the broker."""

    __slots__ = ("_commit_acks", "_commit_timeout_ms", "_states")

    topic = OFFSETS_TOPIC
    logger = logger

    def __init__(
        self,
        replicas: AppliedReplicas,
        config: GroupConfig,
        *,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        load_buffer_bytes: int,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
        consumer_config: ConsumerGroupConfig | None = None,
        image: TopicImage | None = None,
        share_config: ShareGroupConfig | None = None,
        streams_config: StreamsGroupConfig | None = None,
    ) -> None:
        super().__init__(
            replicas,
            GroupCoordinator(
                config,
                new_uuid,
                replicas.wall,
                consumer_config,
                image,
                share_config,
                streams_config,
            ),
            {
                Reply: self._reply,
                Append: self._append,
                InitializeStates: lambda effect: self._start(self._initialize, effect.request),
            },
            clock=clock,
            load_buffer_bytes=load_buffer_bytes,
        )
        self._commit_timeout_ms = commit_timeout_ms
        self._commit_acks = config.commit_required_acks
        self._states: Persister | None = None

    @property
    def states(self) -> Persister:
        """Keeps the states of share groups."""
        assert self._states is not None
        return self._states

    def keep_states_with(self, persister: Persister) -> None:
        self._states = persister

    def spawn(
        self, handler: Callable[..., Awaitable[None]], request: Request, *arguments: Any
    ) -> None:
        """Answer a request in a task of its own."""
        self._start(self._guarded, handler, request, *arguments)

    async def _guarded(
        self, handler: Callable[..., Awaitable[None]], request: Request, *arguments: Any
    ) -> None:
        try:
            await handler(request, *arguments)
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Handling %r failed; closing its connection", request)
            request.close()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        """Kafka's GroupMetadataManager and group-coordinator-metrics."""
        groups, stats = self.machine.groups, self.machine.stats
        manager = "kafka_coordinator_group_groupmetadatamanager_"
        metrics.gauge(manager + "numgroups", lambda: len(groups))
        metrics.gauge(manager + "numoffsets", lambda: sum(len(g.offsets) for g in groups))
        for state in GroupState:

            def count(state: GroupState = state) -> int:
                return sum(group.modern is None and group.state is state for group in groups)

            metrics.gauge(manager + f"numgroups{state.value.lower()}", count)
        coordinator = "kafka_server_group_coordinator_metrics_"
        for name, read in (
            ("offset_commit_count", lambda: stats.offsets_committed),
            ("offset_deletion_count", lambda: stats.offsets_deleted),
            ("offset_expiration_count", lambda: stats.offsets_expired),
            ("group_completed_rebalance_count", lambda: stats.rebalances_completed),
            ("consumer_group_rebalance_count", lambda: stats.consumer_rebalances),
            ("share_group_rebalance_count", lambda: stats.share_rebalances),
            ("streams_group_rebalance_count", lambda: stats.streams_rebalances),
        ):
            metrics.gauge(coordinator + name, read)
        metrics.gauge_family(coordinator + "group_count", ("protocol",), self._by_protocol)
        metrics.gauge_family(coordinator + "consumer_group_count", ("state",), self._by_state)
        metrics.gauge_family(
            coordinator + "streams_group_count", ("state",), self._by_streams_state
        )

    def _by_protocol(self) -> Iterable[tuple[tuple[str, ...], int]]:
        kinds = Counter(
            "classic"
            if group.modern is None
            else "streams"
            if group.streams is not None
            else "share"
            if group.is_share
            else "consumer"
            for group in self.machine.groups
        )
        return [((kind,), kinds[kind]) for kind in ("classic", "consumer", "share", "streams")]

    def _by_state(self) -> Iterable[tuple[tuple[str, ...], int]]:
        states = Counter(
            g.consumer.state
            for g in self.machine.groups
            if g.consumer is not None and not g.is_share
        )
        return [((state.value.lower(),), states[state]) for state in ConsumerGroupState]

    def _by_streams_state(self) -> Iterable[tuple[tuple[str, ...], int]]:
        states = Counter(g.streams.state for g in self.machine.groups if g.streams is not None)
        return [((state.name.lower(),), states[state]) for state in StreamsGroupState]

    # Effects

    def _reply(self, effect: Reply) -> None:
        request = effect.token
        try:
            request.respond(effect.response)
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Answering %r failed; closing its connection", request)
            request.close()

    async def _initialize(self, request: InitializeShareGroupStateRequest) -> None:
        response = await self.states.initialize_state(request)
        self.machine.states_initialized(request, response, self.now_ms)
        self.perform()

    def _append(self, append: Append) -> None:
        self._append_batch(
            append, append.required_acks, self._commit_timeout_ms, append.verification
        )

    def append_completed(self, append: Append, result: ProduceResult, now_ms: int) -> None:
        """The outcome of an append, at once or after waiting for replicas."""
        if append.required_acks == ACKS_NONE:
            if result.error_code is not ErrorCode.NONE:
                logger.warning(
                    "Appending tombstones to %s-%d failed: %s",
                    OFFSETS_TOPIC,
                    append.partition,
                    result.error_code.name,
                )
            return
        base_offset = result.base_offset if result.error_code is ErrorCode.NONE else -1
        self.machine.appended(append.append_id, result.error_code, base_offset, now_ms)
        if not self._is_performing:
            self.perform()

    # The same commit again

    def commit_again(self, request: Request, plan: CommitPlan) -> bool:
        """An OffsetCommit by its plan, straight to the log; False: it has to be looked at."""
        if self._is_performing or self._effects:
            return False
        now_ms = self.now_ms
        commit = self.machine.begin_repeated_commit(plan, now_ms)
        if commit is None:
            return False
        if plan.generation_id >= 0:
            self._note_deadline()  # of the member's session
        replicas, key = self._replicas, (OFFSETS_TOPIC, commit.group.partition)
        result = replicas.append_one(
            key,
            replicas.hosted.partitions.get(key),
            commit.batch,
            ReplicatedAppend(
                self._commit_acks,
                self._commit_timeout_ms,
                now_ms,
                None,
                AppendOrigin.COORDINATOR,
            ),
            _CommitWaiter,
            (self, request, plan, commit),
        )
        if result is not None:
            self.commit_appended(request, plan, commit, None, result)
        return True

    def commit_appended(
        self,
        request: Request,
        plan: CommitPlan,
        commit: RepeatedCommit,
        append_id: int | None,
        result: ProduceResult,
    ) -> None:
        """The outcome of its append, at once or after waiting for replicas."""
        error = result.error_code
        self.machine.repeated_commit_appended(commit, append_id, error, result.base_offset)
        if error is not ErrorCode.NONE or not request.is_plain:
            errors = dict.fromkeys(commit.values, client_error(error))
            request.respond(partition_errors(plan.request, errors))
            return
        answer = plan.answer
        if answer is None:
            errors = dict.fromkeys(commit.values, ErrorCode.NONE)
            response = partition_errors(plan.request, errors)
            parts = encode_response(ApiKey.OFFSET_COMMIT, request.api_version, 0, response)
            answer = plan.answer = b"".join(parts)[_ANSWER_HEAD.size :]  # type: ignore[arg-type]
        head = _ANSWER_HEAD.pack(len(answer) + _CORRELATION_ID_BYTES, request.correlation_id)
        request.respond_encoded(head + answer)

    # Notifications of the broker

    def on_markers(self, producer_id: int, partitions: frozenset[int], committed: bool) -> None:
        """A transaction's markers are in these partitions of the offsets topic, and replicated."""
        self.machine.complete_transaction(producer_id, partitions, committed=committed)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """Partitions were deleted with their topics: so are the offsets committed for them."""
        if partitions:
            self.machine.partitions_deleted(partitions, now_ms)
            self.perform()

    def on_topics_changed(self, names: Collection[str]) -> None:
        """Topics were made or deleted, or have other partitions or replicas."""
        if names:
            self.machine.topics_changed(names)

    def _unload(self, partition: int, epoch: int | None) -> None:
        self.machine.unload(partition, epoch, self.now_ms)
        self.perform()


class _CommitWaiter:
    """The replica manager's token of a commit by its plan that waits for replicas."""

    __slots__ = ("_append_id", "_commit", "_plan", "_request", "_runtime")

    def __init__(
        self, runtime: GroupRuntime, request: Request, plan: CommitPlan, commit: RepeatedCommit
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._plan = plan
        self._commit = commit
        self._append_id = runtime.machine.repeated_commit_waits(commit)

    def complete(self, results: ProduceResults) -> None:
        (result,) = results.values()
        try:
            self._runtime.commit_appended(
                self._request, self._plan, self._commit, self._append_id, result
            )
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Answering %r failed; closing its connection", self._request)
            self._request.close()
