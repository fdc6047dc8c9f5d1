"""The parts of one broker, built and wired to each other; nothing runs yet.

Job: from a `Ground` (the results of the start so far: configs, broker id, loaded logs) to complete
`Parts`: every handler, every listener for changes of leadership, metadata or configs, and every
gauge is registered. The life cycle (what is started and stopped in which order) is the server's.

ApiVersions advertises the APIs registered here; `handlers` says which file has which API.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import trio

from ..protocol.api import ApiKey
from ..protocol.uuids import uuid_to_text
from ..replication.fetch_session import FetchSessions
from ..replication.metadata_cache import MetadataCache, MetadataUpdate
from ..replication.replica_manager import ReplicaManager
from ..storage.log_manager import LogManager
from . import settings
from .authorization.guard import AccessGuard
from .cleaner.runtime import CleanerRuntime
from .cluster.broker_connector import BrokerConnectors
from .cluster.controller_client import ControllerClient
from .cluster.controller_runtime import ControllerRuntime
from .cluster.metadata_waits import MetadataWaits
from .cluster.topic_config_cache import TopicConfigCache
from .cluster.topic_creation import TopicCreator, random_uuid
from .config import KafkaConfig
from .config.tls_listeners import TlsListeners
from .coordinators.group_lag import GroupLag
from .coordinators.group_runtime import GroupRuntime, group_config
from .coordinators.marker_writer import MarkerWriter
from .coordinators.producer_ids import (
    ProducerIds,
    allocate_from_controller,
    allocate_from_zookeeper,
)
from .coordinators.transaction_runtime import TransactionRuntime, transaction_config
from .coordinators.transaction_verifier import TransactionVerifier
from .gauges import (
    register_gauges,
    register_quota_gauges,
    register_session_gauges,
    register_transaction_gauges,
)
from .handlers.acls import AclHandlers
from .handlers.alter_configs import AlterConfigsHandler
from .handlers.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from .handlers.api_versions import ApiVersionsHandler
from .handlers.client_quotas import ClientQuotaHandlers
from .handlers.controller_orders import ControllerOrders
from .handlers.controller_requests import ControllerRequestHandlers
from .handlers.delegation_tokens import DelegationTokenHandlers
from .handlers.delete_records import DeleteRecordsHandler
from .handlers.describe_cluster import DescribeClusterHandler
from .handlers.describe_configs import DescribeConfigsHandler
from .handlers.describe_log_dirs import DescribeLogDirsHandler
from .handlers.describe_producers import DescribeProducersHandler
from .handlers.elect_leaders import ElectLeadersHandler
from .handlers.envelope import EnvelopeHandler
from .handlers.fetch import FetchHandler
from .handlers.find_coordinator import FindCoordinatorHandler
from .handlers.group_offsets import GroupOffsetHandlers
from .handlers.groups import GroupHandlers
from .handlers.leadership_gate import LeadershipGate
from .handlers.list_offsets import ListOffsetsHandler
from .handlers.metadata import MetadataHandler
from .handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from .handlers.partition_reassignments import PartitionReassignmentHandlers
from .handlers.produce import ProduceHandler
from .handlers.sasl import SaslHandlers
from .handlers.scram_credentials import ScramCredentialHandlers
from .handlers.static_members import without_static_members
from .handlers.topics import TopicHandlers
from .handlers.transactional_produce import TransactionalProduce
from .handlers.transactions import TransactionHandlers
from .handlers.txn_offset_commit import TxnOffsetCommitHandler
from .handlers.write_txn_markers import WriteTxnMarkersHandler
from .logins.logins import Logins
from .network.dispatcher import Dispatcher
from .network.request_meter import meter_clock_ms
from .network.socket_server import SocketServer
from .observability.metrics import BrokerMetrics
from .quotas.client_quotas import ClientQuotas
from .replicas.alter_partition_sender import AlterPartitionSender
from .replicas.fetcher_runtime import FetcherRuntime
from .replicas.log_dir_mover import LogDirMover
from .replicas.replica_runtime import ReplicaRuntime
from .security.access import DenialLog
from .zk.acl_store import AclStore
from .zk.config_store import ConfigStore
from .zk.delegation_token_store import DelegationTokenStore
from .zk.finalized_features import FinalizedFeatures
from .zk.zookeeper_client import ZooKeeperClient
from .zk.zookeeper_offsets import ZooKeeperOffsets


class Ground(NamedTuple):
    """The input from which the parts are built."""

    config: KafkaConfig
    clock: Callable[[], int]
    trusted_ms: Callable[[], int]  # the wall clock's time, for dates in tokens
    metrics: BrokerMetrics
    zookeeper: ZooKeeperClient
    store: ConfigStore
    features: FinalizedFeatures
    topic_configs: TopicConfigCache
    logs: LogManager
    broker_id: int
    cluster_id: str
    tls: TlsListeners
    connectors: BrokerConnectors


class Replicas(NamedTuple):
    """The parts that host, move and follow partitions."""

    manager: ReplicaManager
    runtime: ReplicaRuntime
    fetchers: FetcherRuntime
    mover: LogDirMover


class Control(NamedTuple):
    """The controller on this broker, and the clients of the cluster's controller."""

    controller: ControllerRuntime
    client: ControllerClient
    creator: TopicCreator
    waits: MetadataWaits
    producer_ids: ProducerIds
    isr_changes: AlterPartitionSender


class Coordinators(NamedTuple):
    groups: GroupRuntime
    transactions: TransactionRuntime
    verifier: TransactionVerifier
    markers: MarkerWriter


class Parts(NamedTuple):
    """A whole broker, at rest."""

    cache: MetadataCache
    dispatcher: Dispatcher
    quotas: ClientQuotas
    sockets: SocketServer
    replicas: Replicas
    control: Control
    coordinators: Coordinators
    cleaner: CleanerRuntime
    orders: ControllerOrders
    tokens: DelegationTokenStore
    acls: AclStore | None
    """With the authorizer; None without one."""
    logins: Logins


def assemble(ground: Ground, register_broker: Callable[[], Awaitable[None]]) -> Parts:
    """`register_broker` is called anew after each lost session."""
    config = ground.config
    cache = MetadataCache(ground.broker_id, ground.cluster_id)
    replicas = _replicas(ground, cache)
    dispatcher = Dispatcher(ground.metrics)
    dispatcher.hold_back()
    quotas = ClientQuotas(*settings.quota_windows(config))
    dispatcher.obey(quotas)
    sockets = SocketServer(
        dispatcher,
        settings.connection_quotas(config),
        settings.socket_settings(config),
        ground.metrics,
    )
    sockets.short_waits.others_wait = lambda: bool(replicas.fetchers.fetchers.fetchers)
    authorizer = settings.acl_authorizer(config)
    control = _control(ground, cache, replicas.runtime, register_broker)
    tokens = DelegationTokenStore(
        ground.zookeeper,
        settings.delegation_tokens(config),
        ground.clock,
        _new_token_id,
        ground.logs.wall,
    )
    parts = Parts(
        cache=cache,
        dispatcher=dispatcher,
        quotas=quotas,
        sockets=sockets,
        replicas=replicas,
        control=control,
        coordinators=_coordinators(ground, cache, replicas.runtime, control.producer_ids),
        cleaner=CleanerRuntime(ground.logs, config, ground.clock),
        orders=ControllerOrders(replicas.runtime),
        tokens=tokens,
        logins=Logins(
            config,
            ground.trusted_ms,
            ground.metrics,
            dispatcher.handle_frame,
            tokens.tokens.token_credentials,
        ),
        acls=None if authorizer is None else AclStore(ground.zookeeper, authorizer),
    )
    if authorizer is not None:
        denials = DenialLog(trio.current_time)
        controller = control.controller
        on_denied = {ApiKey.UPDATE_METADATA: parts.orders.metadata_denied}
        guard = AccessGuard(authorizer, denials, lambda: controller.is_active, on_denied)
        dispatcher.guard_with(guard)
    _register_orders(ground, parts)
    _register_controller(ground, parts)
    _register_records(ground, parts)
    _register_cluster(ground, parts)
    _register_coordinators(ground, parts)
    _register_gauges(ground, parts)
    return parts


# The parts


def _new_token_id() -> str:
    """A random id that does not begin with a dash: commands would take that for an option."""
    return uuid_to_text(random_uuid(random.SystemRandom()))


def _replicas(ground: Ground, cache: MetadataCache) -> Replicas:
    config, clock = ground.config, ground.clock
    manager = ReplicaManager(
        settings.replica_config(config, ground.broker_id),
        ground.logs,
        cache,
        ground.topic_configs.config_for,
        now_ms=clock(),
        replica_selector=settings.replica_selector(config, cache),
    )
    settings.apply_replication_quotas(config, manager)
    ground.metrics.topic_stats = manager.hosted.topic_stats
    runtime = ReplicaRuntime(manager, clock)
    runtime.flusher.set_max_threads(config.get_int("num.io.threads"))
    fetchers = FetcherRuntime(
        runtime,
        config.inter_broker_listener,
        settings.fetcher_config(config),
        connect=ground.connectors.to(config.inter_broker_listener),
        fetchers_per_source=config.get_int("num.replica.fetchers"),
        timeout_ms=config.get_int("replica.socket.timeout.ms"),
    )
    runtime.on_flush = fetchers.on_flush
    mover = LogDirMover(runtime, settings.copies_at_once(config))
    ground.topic_configs.on_change.append(
        lambda topic, changed: manager.apply_topic_config(topic, changed, clock())
    )
    return Replicas(manager, runtime, fetchers, mover)


def _control(
    ground: Ground,
    cache: MetadataCache,
    replicas: ReplicaRuntime,
    register_broker: Callable[[], Awaitable[None]],
) -> Control:
    config, zookeeper, broker_id = ground.config, ground.zookeeper, ground.broker_id
    listener = config.control_plane_listener
    connect = ground.connectors.to(listener)
    client = ControllerClient(
        broker_id,
        cache,
        listener,
        connect=connect,
        request_timeout_ms=config.get_int("controller.socket.timeout.ms"),
    )
    isr_changes = AlterPartitionSender(
        broker_id, replicas, client, zookeeper, settings.inter_broker_protocol(config)
    )
    replicas.on_isr_change = isr_changes.propose
    replicas.on_failed_log_dir = isr_changes.log_dir_failed
    return Control(
        controller=ControllerRuntime(
            zookeeper,
            settings.controller_config(config, broker_id),
            clock=ground.clock,
            wall=ground.logs.wall,
            new_topic_id=partial(random_uuid, random.SystemRandom()),
            register=register_broker,
            listener=listener,
            connect=connect,
        ),
        client=client,
        creator=TopicCreator(config, cache, zookeeper, random.Random()),
        waits=MetadataWaits(cache),
        producer_ids=ProducerIds(
            allocate_from_controller(
                client, broker_id, lambda: replicas.manager.leadership.broker_epoch
            )
            if settings.inter_broker_protocol(config).has_producer_id_requests
            else allocate_from_zookeeper(zookeeper, broker_id)
        ),
        isr_changes=isr_changes,
    )


def _coordinators(
    ground: Ground, cache: MetadataCache, replicas: ReplicaRuntime, producer_ids: ProducerIds
) -> Coordinators:
    config, clock = ground.config, ground.clock
    connect = ground.connectors.to(config.inter_broker_listener)
    request_timeout_ms = config.get_int("request.timeout.ms")
    groups = GroupRuntime(
        replicas,
        group_config(config),
        clock=clock,
        commit_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
        load_buffer_bytes=config.get_int("offsets.load.buffer.size"),
    )
    markers = MarkerWriter(replicas, groups.on_markers, request_timeout_ms)
    transactions = TransactionRuntime(
        replicas,
        transaction_config(config),
        producer_ids,
        markers,
        listener=config.inter_broker_listener,
        connect=connect,
        clock=clock,
        load_buffer_bytes=config.get_int("transaction.state.log.load.buffer.size"),
        markers_version=settings.inter_broker_protocol(config).write_txn_markers,
    )
    verifier = TransactionVerifier(
        cache,
        config.inter_broker_listener,
        str(ground.broker_id),
        transactions.machine.verify_partitions,
        connect=connect,
        timeout_ms=request_timeout_ms,
    )
    return Coordinators(groups, transactions, verifier, markers)


# Registering handlers and listeners


def _register_orders(ground: Ground, parts: Parts) -> None:
    """Register the handlers of the controller's requests, and the listeners for their effects."""
    orders, dispatcher, replicas = parts.orders, parts.dispatcher, parts.replicas
    gate = LeadershipGate(orders, replicas.manager, ground.topic_configs, dispatcher.spawn)
    dispatcher.register({**orders.handlers(), ApiKey.LEADER_AND_ISR: gate.leader_and_isr})
    dispatcher.register(DescribeLogDirsHandler(replicas.manager).handlers())
    orders.on_leadership.append(replicas.fetchers.on_leadership)
    orders.on_leadership.append(replicas.mover.on_leadership)
    orders.on_stopped.append(replicas.fetchers.on_stopped)
    orders.on_metadata.append(replicas.fetchers.on_metadata)
    groups, transactions = parts.coordinators.groups, parts.coordinators.transactions
    orders.on_leadership.append(
        lambda result: groups.on_leadership_change(result.became_leader, result.became_follower)
    )
    orders.on_stopped.append(lambda result: groups.on_leadership_change((), result.stopped))
    orders.on_leadership.append(
        lambda result: transactions.on_leadership_change(
            result.became_leader, result.became_follower
        )
    )
    orders.on_stopped.append(lambda result: transactions.on_leadership_change((), result.stopped))

    def forget_deleted(update: MetadataUpdate) -> None:
        for topic in update.deleted_topics:
            ground.topic_configs.forget(topic)
        groups.on_partitions_deleted(update.deleted_partitions, ground.clock())

    orders.on_metadata.append(forget_deleted)
    orders.on_metadata.append(parts.control.waits.metadata_changed)


def _register_controller(ground: Ground, parts: Parts) -> None:
    """Register the APIs that only the controller serves, for brokers and administrators."""
    register, control = parts.dispatcher.register, parts.control
    controller, waits = control.controller, control.waits
    topics = TopicHandlers(
        ground.config, parts.cache, ground.zookeeper, controller, control.creator, waits
    )
    register(topics.handlers())
    register(ControllerRequestHandlers(controller).handlers())
    register(ElectLeadersHandler(controller, waits).handlers())
    register(PartitionReassignmentHandlers(controller).handlers())


def _register_records(ground: Ground, parts: Parts) -> None:
    """Produce, Fetch, offsets, and the data side of transactions."""
    register, spawn, config = parts.dispatcher.register, parts.dispatcher.spawn, ground.config
    replicas, manager = parts.replicas.runtime, parts.replicas.manager
    groups, verifier = parts.coordinators.groups, parts.coordinators.verifier

    def verifies() -> bool:
        return config.get_boolean("transaction.partition.verification.enable")

    transactions = TransactionalProduce(replicas, verifier, verifies)
    register(ProduceHandler(replicas, transactions, spawn).handlers())
    register(TxnOffsetCommitHandler(groups, replicas, verifier, verifies).handlers())
    register(WriteTxnMarkersHandler(parts.coordinators.markers).handlers())
    register(DescribeProducersHandler(manager).handlers())
    longest_ms = config.get_int("transaction.max.timeout.ms")
    register_transaction_gauges(ground.metrics, manager, verifier, ground.clock, longest_ms)
    slots = config.get_int("max.incremental.fetch.session.cache.slots")
    sessions = FetchSessions(random.randint, slots)
    register_session_gauges(ground.metrics, sessions)
    register(FetchHandler(replicas, sessions, spawn).handlers())
    register(ListOffsetsHandler(replicas, spawn).handlers())
    register(OffsetForLeaderEpochHandler(manager).handlers())
    register(DeleteRecordsHandler(replicas).handlers())
    register(AlterReplicaLogDirsHandler(replicas, parts.replicas.mover).handlers())


def _register_cluster(ground: Ground, parts: Parts) -> None:
    """Register the APIs for questions of clients about the cluster and its configs."""
    register, config, cache, store = (
        parts.dispatcher.register,
        ground.config,
        parts.cache,
        ground.store,
    )
    auto_creates = config.get_boolean("auto.create.topics.enable")
    metadata = MetadataHandler(
        cache,
        topic_creator=parts.control.creator if auto_creates else None,
        clock=lambda: int(trio.current_time() * 1000),
    )
    parts.orders.on_metadata.append(metadata.metadata_changed)
    register(metadata.handlers())
    versions = ApiVersionsHandler(
        parts.dispatcher.served, feature_epoch=lambda: ground.features.epoch
    )
    register(versions.handlers())
    register(DescribeClusterHandler(cache).handlers())
    register(DescribeConfigsHandler(config, ground.broker_id, cache, store).handlers())
    register(AlterConfigsHandler(config, ground.broker_id, cache, store, ground.tls).handlers())
    register(DelegationTokenHandlers(parts.tokens).handlers())
    register(ClientQuotaHandlers(store).handlers())
    register(AclHandlers(parts.acls).handlers())
    register(SaslHandlers().handlers())
    register(EnvelopeHandler().handlers())
    register(ScramCredentialHandlers(store, parts.control.controller).handlers())


def _register_coordinators(ground: Ground, parts: Parts) -> None:
    register, cache = parts.dispatcher.register, parts.cache
    groups, transactions = parts.coordinators.groups, parts.coordinators.transactions
    find_coordinator = FindCoordinatorHandler(
        cache,
        auto_create_topic=parts.control.creator.auto_create_internal,
        group_partition_for=groups.machine.partition_for,
        transaction_partition_for=transactions.machine.partition_for,
    )
    register(find_coordinator.handlers())
    group_handlers = GroupHandlers(groups).handlers()
    group_offsets = GroupOffsetHandlers(
        groups,
        cache,
        zookeeper=ZooKeeperOffsets(ground.zookeeper),
        offset_metadata_max_bytes=ground.config.get_int("offset.metadata.max.bytes"),
    )
    of_groups = {**group_handlers, **group_offsets.handlers()}
    if not settings.inter_broker_protocol(ground.config).has_static_members:
        of_groups = without_static_members(of_groups)
    register(of_groups)
    transaction_handlers = TransactionHandlers(
        transactions,
        parts.control.producer_ids,
        cache,
        offsets_partition_for=groups.machine.partition_for,
    )
    register(transaction_handlers.handlers())


def _register_gauges(ground: Ground, parts: Parts) -> None:
    metrics = ground.metrics
    register_gauges(metrics, parts.replicas.manager, ground.zookeeper)
    parts.replicas.fetchers.register_gauges(metrics)
    parts.replicas.mover.register_gauges(metrics)
    parts.cleaner.register_gauges(metrics)
    register_quota_gauges(metrics, parts.quotas, meter_clock_ms)
    parts.coordinators.groups.register_gauges(metrics)
    listener = ground.config.inter_broker_listener
    GroupLag(
        parts.coordinators.groups.machine.groups,
        parts.replicas.manager,
        parts.cache,
        listener,
        str(ground.broker_id),
        connect=ground.connectors.to(listener),
    ).register(metrics)
    parts.coordinators.transactions.register_gauges(metrics)
    parts.control.controller.register_gauges(metrics)
