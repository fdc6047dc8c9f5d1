"""The layer of handlers in a broker: every API that it serves, registered at the dispatcher.

ApiVersions advertises the APIs registered here; the files beside this one have the names of the
APIs. Requests pass the gatekeepers of logins (`broker/logins`) and the guard of access
(`broker/authorization`) first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...protocol.api import ApiKey
from ...protocol.features import Feature
from ...replication.fetch_session import FetchSessions
from ..cluster.parts import Control, Ground
from ..cluster.streams_topics import StreamsTopics
from ..coordinators.parts import Coordinators
from ..network.dispatcher import Dispatcher
from ..network.request import Handler
from ..observability.client_subscriptions import ClientInstances
from ..observability.client_telemetry import (
    ClientValues,
    can_be_read,
    register_client_metrics,
)
from ..replicas.parts import Replicas
from ..share.share_leader import ShareLeader
from ..zk.acl_store import AclStore
from ..zk.delegation_token_store import DelegationTokenStore
from ..zk.zookeeper_offsets import ZooKeeperOffsets
from .acls import AclHandlers
from .alter_configs import AlterConfigsHandler
from .api_versions import ApiVersionsHandler
from .client_quotas import ClientQuotaHandlers
from .consumer_groups import ConsumerGroupHandlers
from .controller_orders import ControllerOrders, LeadershipGate
from .controller_requests import ControllerRequestHandlers
from .delegation_tokens import DelegationTokenHandlers
from .delete_records import DeleteRecordsHandler
from .describe_cluster import DescribeClusterHandler
from .describe_configs import DescribeConfigsHandler
from .describe_producers import DescribeProducersHandler
from .describe_topic_partitions import DescribeTopicPartitionsHandler
from .elect_leaders import ElectLeadersHandler
from .envelope import EnvelopeHandler
from .fetch import FetchHandler
from .find_coordinator import FindCoordinatorHandler
from .group_offsets import GroupOffsetHandlers
from .groups import GroupHandlers
from .list_config_resources import ListConfigResourcesHandler
from .list_offsets import ListOffsetsHandler
from .log_dirs import LogDirHandlers
from .metadata import MetadataHandler
from .offset_for_leader_epoch import OffsetForLeaderEpochHandler
from .produce import ProduceHandler
from .sasl import SaslHandlers
from .scram_credentials import ScramCredentialHandlers
from .share_group_offsets import ShareGroupOffsetHandlers
from .share_groups import ShareGroupHandlers
from .share_states import ShareStateHandlers
from .shares import ShareHandlers
from .static_members import without_static_members
from .streams_groups import StreamsGroupHandlers
from .telemetry import TelemetryHandlers
from .topics import TopicHandlers
from .transactional_produce import TransactionalProduce
from .transactions import TransactionHandlers
from .txn_offset_commit import TxnOffsetCommitHandler
from .write_txn_markers import WriteTxnMarkersHandler

if TYPE_CHECKING:
    from ..remote.parts import Remote


class Lower(NamedTuple):
    """The parts that handlers call."""

    control: Control
    replicas: Replicas
    coordinators: Coordinators
    share_leader: ShareLeader
    tokens: DelegationTokenStore
    acls: AclStore | None
    """With the authorizer; None without one."""
    client_instances: ClientInstances
    client_values: ClientValues
    remote: Remote | None
    """With tiered storage."""


class Handlers(NamedTuple):
    """The handlers that other parts of the broker know."""

    orders: ControllerOrders
    sessions: FetchSessions


def register_handlers(ground: Ground, lower: Lower, dispatcher: Dispatcher) -> Handlers:
    """Build all handlers, and register them at the dispatcher."""
    orders = ControllerOrders(lower.replicas.runtime)
    slots = ground.config.get_int("max.incremental.fetch.session.cache.slots")
    sessions = FetchSessions(random.randint, slots)
    metadata = _metadata(ground, lower.control)
    orders.on_metadata.append(metadata.metadata_changed)
    spawn = dispatcher.spawn
    gate = LeadershipGate(orders, lower.replicas.manager, ground.topic_configs, spawn)
    for handlers in (
        {**orders.handlers(), ApiKey.LEADER_AND_ISR: gate.leader_and_isr},
        *_of_controller(ground, lower),
        *_of_records(ground, lower, sessions, spawn),
        metadata.handlers(),
        ApiVersionsHandler(
            dispatcher.served, lambda: (ground.features.epoch, ground.features.levels)
        ).handlers(),
        SaslHandlers().handlers(),
        EnvelopeHandler().handlers(),
        *_of_cluster(ground, lower),
        *_of_coordinators(ground, lower),
    ):
        dispatcher.register(handlers)
    return Handlers(orders, sessions)


_Some = list[Mapping[ApiKey, Handler]]


def _metadata(ground: Ground, control: Control) -> MetadataHandler:
    auto_creates = ground.config.get_boolean("auto.create.topics.enable")
    return MetadataHandler(
        control.cache,
        topic_creator=control.creator if auto_creates else None,
        clock=lambda: int(trio.current_time() * 1000),
    )


def _of_controller(ground: Ground, lower: Lower) -> _Some:
    """The APIs that only the controller serves, for brokers and administrators."""
    cache, controller, _, creator, waits = lower.control
    return [
        TopicHandlers(
            ground.config, cache, ground.zookeeper, controller, creator, waits
        ).handlers(),
        ControllerRequestHandlers(controller).handlers(),
        ElectLeadersHandler(controller, waits).handlers(),
        ScramCredentialHandlers(ground.store, controller).handlers(),
    ]


def _of_records(
    ground: Ground, lower: Lower, sessions: FetchSessions, spawn: Callable[..., None]
) -> _Some:
    """Produce, Fetch, offsets, and the data side of transactions."""
    groups, _, verifier, markers, *_ = lower.coordinators
    manager, replicas, mover = (
        lower.replicas.manager,
        lower.replicas.runtime,
        lower.replicas.mover,
    )

    def verifies() -> bool:
        return ground.config.get_boolean("transaction.partition.verification.enable")

    transactions = TransactionalProduce(replicas, verifier, verifies)
    search_remote = None if lower.remote is None else lower.remote.reads.offset_by_time
    return [
        ProduceHandler(replicas, transactions, spawn).handlers(),
        TxnOffsetCommitHandler(groups, replicas, verifier, verifies).handlers(),
        WriteTxnMarkersHandler(markers).handlers(),
        DescribeProducersHandler(manager).handlers(),
        FetchHandler(replicas, sessions, spawn).handlers(),
        ShareHandlers(lower.share_leader, manager, lambda: ground.features.levels).handlers(),
        ListOffsetsHandler(replicas, spawn, search_remote).handlers(),
        OffsetForLeaderEpochHandler(manager).handlers(),
        DeleteRecordsHandler(replicas).handlers(),
        LogDirHandlers(replicas, mover).handlers(),
    ]


def _of_cluster(ground: Ground, lower: Lower) -> _Some:
    """The APIs for questions of clients about the cluster and its configs."""
    config, store, cache = ground.config, ground.store, lower.control.cache

    def is_of_4() -> bool:
        return bool(ground.features.levels)

    return [
        DescribeClusterHandler(cache).handlers(),
        DescribeTopicPartitionsHandler(
            cache, lambda: config.get_int("max.request.partition.size.limit")
        ).handlers(),
        DescribeConfigsHandler(config, ground.broker_id, cache, store, is_of_4).handlers(),
        AlterConfigsHandler(config, ground.broker_id, cache, store, ground.tls, is_of_4).handlers(),
        ListConfigResourcesHandler(
            cache, lower.client_instances.names, lower.coordinators.group_configs.names
        ).handlers(),
        *_of_client_metrics(ground, lower),
        DelegationTokenHandlers(lower.tokens).handlers(),
        ClientQuotaHandlers(store).handlers(),
        AclHandlers(lower.acls).handlers(),
    ]


def _of_client_metrics(ground: Ground, lower: Lower) -> _Some:
    """Nothing where the metrics of clients cannot be read, as in Kafka without such a plug-in."""
    if not can_be_read():
        return []
    instances, values = lower.client_instances, lower.client_values
    register_client_metrics(ground.metrics, instances, values, ground.clock)
    return [TelemetryHandlers(instances, values, ground.clock).handlers()]


def _of_coordinators(ground: Ground, lower: Lower) -> _Some:
    groups, transactions = lower.coordinators.groups, lower.coordinators.transactions
    cache = lower.control.cache
    group_offsets = GroupOffsetHandlers(
        groups,
        cache,
        zookeeper=ZooKeeperOffsets(ground.zookeeper),
        offset_metadata_max_bytes=ground.config.get_int("offset.metadata.max.bytes"),
    )
    of_groups = {
        **GroupHandlers(groups).handlers(),
        **ConsumerGroupHandlers(groups, lambda: ground.features.levels).handlers(),
        **ShareGroupHandlers(groups).handlers(),
        **StreamsGroupHandlers(
            groups, StreamsTopics(lower.control.creator, ground.clock)
        ).handlers(),
        **ShareGroupOffsetHandlers(groups, cache, lower.coordinators.ends).handlers(),
        **group_offsets.handlers(),
    }
    if not ground.config.inter_broker_protocol.has_static_members:
        of_groups = without_static_members(of_groups)
    shares = lower.coordinators.shares.machine

    def share_partition_for(key: str) -> int | None:
        return shares.partition_for(key) if ground.features.levels.get(Feature.SHARE) else None

    return [
        of_groups,
        FindCoordinatorHandler(
            cache,
            auto_create_topic=lower.control.creator.auto_create_internal,
            group_partition_for=groups.machine.partition_for,
            transaction_partition_for=transactions.machine.partition_for,
            share_partition_for=share_partition_for,
        ).handlers(),
        ShareStateHandlers(lower.coordinators.shares).handlers(),
        TransactionHandlers(
            transactions,
            lower.coordinators.producer_ids,
            cache,
            offsets_partition_for=groups.machine.partition_for,
        ).handlers(),
    ]
