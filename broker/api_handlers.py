"""Which handler serves which API of one broker, and who hears of leadership and metadata.

What is registered here is what ApiVersions advertises.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import trio

from ..protocol.api import ApiKey
from ..replication.fetch_session import FetchSessions
from .cluster.zookeeper_offsets import ConsumerOffsets
from .gauges import register_session_gauges, register_transaction_gauges
from .handlers.active_producers import ActiveProducersHandler
from .handlers.alter_configs import AlterConfigsHandler
from .handlers.configs import DescribeConfigsHandler
from .handlers.fetch import FetchHandler
from .handlers.group_offsets import GroupOffsetHandlers
from .handlers.groups import GroupHandlers
from .handlers.leadership_gate import LeadershipGate
from .handlers.metadata import MetadataHandlers
from .handlers.offsets import OffsetsHandler
from .handlers.produce import ProduceHandler
from .handlers.replication import ReplicationHandler
from .handlers.transactional_offsets import TransactionalOffsetHandler
from .handlers.transactional_produce import TransactionalProduce
from .handlers.transactions import TransactionHandlers
from .handlers.txn_markers import TxnMarkersHandler

if TYPE_CHECKING:
    from .server import Broker


def register_handlers(broker: Broker) -> None:
    """Build the handlers on the broker's parts and enter them into its dispatcher."""
    replication = _register_replication(broker)
    broker.topics.register(broker.dispatcher)
    _register_records(broker)
    _register_cluster(broker, replication)
    _register_coordinators(broker)


def _register_replication(broker: Broker) -> ReplicationHandler:
    """What the controller sends, and who hears of it."""
    replication = ReplicationHandler(broker.shell)
    gate = LeadershipGate(
        replication, broker.manager, broker.topic_configs, broker.dispatcher.spawn
    )
    broker.dispatcher.register(
        {**replication.handlers(), ApiKey.LEADER_AND_ISR: gate.leader_and_isr}
    )
    replication.on_leadership.append(broker.fetchers.on_leadership)
    replication.on_leadership.append(broker.mover.on_leadership)
    replication.on_stopped.append(broker.fetchers.on_stopped)
    replication.on_metadata.append(broker.fetchers.on_metadata)
    replication.on_leadership.append(
        lambda result: broker.groups.on_leadership_change(
            result.became_leader, result.became_follower
        )
    )
    replication.on_stopped.append(
        lambda result: broker.groups.on_leadership_change((), result.stopped)
    )
    replication.on_leadership.append(
        lambda result: broker.transactions.on_leadership_change(
            result.became_leader, result.became_follower
        )
    )
    replication.on_stopped.append(
        lambda result: broker.transactions.on_leadership_change((), result.stopped)
    )
    broker.retry_refused = replication.retry_refused
    replication.on_metadata.append(broker.metadata_changed)
    replication.on_metadata.append(broker.topics.on_metadata)
    return replication


def _register_records(broker: Broker) -> None:
    """Produce, Fetch, offsets, and the data side of transactions."""
    register, config = broker.dispatcher.register, broker.config
    verifier = broker.verifier

    def verifies() -> bool:
        return config.get_boolean("transaction.partition.verification.enable")

    transactions = TransactionalProduce(broker.shell, verifier, verifies)
    register(ProduceHandler(broker.shell, transactions, broker.dispatcher.spawn).handlers())
    register(TransactionalOffsetHandler(broker.groups, broker.shell, verifier, verifies).handlers())
    timeout_ms = config.get_int("request.timeout.ms")
    register(TxnMarkersHandler(broker.shell, broker.groups.on_markers, timeout_ms).handlers())
    register(ActiveProducersHandler(broker.manager).handlers())
    longest_ms = config.get_int("transaction.max.timeout.ms")
    register_transaction_gauges(broker.metrics, broker.manager, verifier, broker.clock, longest_ms)
    slots = config.get_int("max.incremental.fetch.session.cache.slots")
    sessions = FetchSessions(random.randint, slots)
    register_session_gauges(broker.metrics, sessions)
    register(FetchHandler(broker.shell, sessions, broker.dispatcher.spawn).handlers())
    register(OffsetsHandler(broker.shell, broker.dispatcher.spawn).handlers())
    register(broker.mover.handlers())


def _register_cluster(broker: Broker, replication: ReplicationHandler) -> None:
    register = broker.dispatcher.register
    config, cache, store = broker.config, broker.cache, broker.store
    auto_creates = config.get_boolean("auto.create.topics.enable")
    metadata = MetadataHandlers(
        cache,
        broker.dispatcher.served,
        topic_creator=broker.topics.creator if auto_creates else None,
        feature_epoch=lambda: broker.features.epoch,
        clock=lambda: int(trio.current_time() * 1000),
    )
    replication.on_metadata.append(metadata.metadata_changed)
    register(metadata.handlers())
    register(DescribeConfigsHandler(config, broker.broker_id, cache, store).handlers())
    register(AlterConfigsHandler(config, broker.broker_id, cache, store).handlers())


def _register_coordinators(broker: Broker) -> None:
    register, config, cache = broker.dispatcher.register, broker.config, broker.cache
    register(GroupHandlers(broker.groups).handlers())
    register(
        GroupOffsetHandlers(
            broker.groups,
            cache,
            auto_create_topic=broker.topics.creator.auto_create_internal,
            zookeeper=ConsumerOffsets(broker.zookeeper),
            offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
            transaction_partition_for=broker.transactions.machine.partition_for,
        ).handlers()
    )
    register(
        TransactionHandlers(
            broker.transactions,
            broker.topics.producer_ids,
            cache,
            offsets_partition_for=broker.groups.machine.partition_for,
        ).handlers()
    )
