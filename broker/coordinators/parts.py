"""The layer of coordinators in a broker: groups, transactions and their producer ids,
states of share partitions.

Job: build them and connect them with each other, from the configuration. Nothing runs yet.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...protocol.api import API_TABLE, ApiKey
from ...protocol.features import Feature
from ..cluster.parts import Control, Ground
from ..config.group_configs import GroupConfigs
from ..replicas.parts import Replicas
from .end_offsets import EndOffsets
from .group_lag import GroupLag
from .group_runtime import (
    GroupRuntime,
    consumer_group_config,
    group_config,
    share_group_config,
    streams_group_config,
)
from .marker_writer import MarkerWriter
from .producer_ids import ProducerIds, allocate_from_controller, allocate_from_zookeeper
from .share_runtime import ShareRuntime, share_config
from .state_persister import StatePersister
from .topic_image import CachedTopics
from .transaction_runtime import TransactionRuntime, transaction_config
from .transaction_verifier import TransactionVerifier


class Coordinators(NamedTuple):
    groups: GroupRuntime
    transactions: TransactionRuntime
    verifier: TransactionVerifier
    markers: MarkerWriter
    producer_ids: ProducerIds
    group_configs: GroupConfigs
    shares: ShareRuntime
    persister: StatePersister
    ends: EndOffsets


def build_coordinators(ground: Ground, control: Control, replicas: Replicas) -> Coordinators:
    """Build the coordinators of groups and transactions, and the parts that only they use."""
    config, clock, listener = ground.config, ground.clock, ground.config.inter_broker_listener
    connect = ground.connectors.to(listener)
    request_timeout_ms = config.get_int("request.timeout.ms")
    image = CachedTopics(control.cache)
    groups = GroupRuntime(
        replicas.runtime,
        group_config(config),
        clock=clock,
        commit_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
        load_buffer_bytes=config.get_int("offsets.load.buffer.size"),
        consumer_config=consumer_group_config(config),
        image=image,
        share_config=share_group_config(config),
        streams_config=streams_group_config(config),
    )
    group_configs = GroupConfigs(config)
    group_configs.on_change.append(groups.machine.group_config_changed)
    producer_ids = _producer_ids(ground, control, replicas)
    markers = MarkerWriter(replicas.runtime, groups.on_markers, request_timeout_ms)
    transactions = _transactions(ground, replicas, producer_ids, markers)
    verifier = TransactionVerifier(
        control.cache,
        listener,
        str(ground.broker_id),
        transactions.machine.verify_partitions,
        transactions.add_partitions,
        connect=connect,
        timeout_ms=request_timeout_ms,
    )
    shares = ShareRuntime(
        replicas.runtime,
        share_config(config),
        image,
        clock=clock,
        load_buffer_bytes=config.get_int("share.coordinator.load.buffer.size"),
    )
    persister = StatePersister(
        control.cache,
        listener,
        str(ground.broker_id),
        shares,
        control.creator.auto_create_internal,
        connect=connect,
        timeout_ms=request_timeout_ms,
    )
    groups.keep_states_with(persister)
    return Coordinators(
        groups,
        transactions,
        verifier,
        markers,
        producer_ids,
        group_configs,
        shares,
        persister,
        EndOffsets(
            replicas.manager, control.cache, listener, str(ground.broker_id), connect=connect
        ),
    )


def _producer_ids(ground: Ground, control: Control, replicas: Replicas) -> ProducerIds:
    return ProducerIds(
        allocate_from_controller(
            control.client, ground.broker_id, lambda: replicas.manager.leadership.broker_epoch
        )
        if ground.config.inter_broker_protocol.has_producer_id_requests
        else allocate_from_zookeeper(ground.zookeeper, ground.broker_id)
    )


def _transactions(
    ground: Ground, replicas: Replicas, producer_ids: ProducerIds, markers: MarkerWriter
) -> TransactionRuntime:
    config, listener = ground.config, ground.config.inter_broker_listener
    return TransactionRuntime(
        replicas.runtime,
        transaction_config(config),
        producer_ids,
        markers,
        listener=listener,
        connect=ground.connectors.to(listener),
        clock=ground.clock,
        load_buffer_bytes=config.get_int("transaction.state.log.load.buffer.size"),
        markers_version=partial(_markers_version, ground),
        version=lambda: ground.features.levels.get(Feature.TRANSACTION, 0),
    )


def _markers_version(ground: Ground) -> int:
    """Of WriteTxnMarkers: the newest one that all brokers serve."""
    if ground.features.levels:
        return API_TABLE[ApiKey.WRITE_TXN_MARKERS].highest(ground.features.levels)
    return ground.config.inter_broker_protocol.write_txn_markers


def register_gauges(
    ground: Ground, control: Control, replicas: Replicas, built: Coordinators
) -> None:
    """Register the gauges of groups, their lag, and transactions."""
    metrics, listener = ground.metrics, ground.config.inter_broker_listener
    built.groups.register_gauges(metrics)
    GroupLag(
        built.groups.machine.groups,
        replicas.manager,
        control.cache,
        listener,
        str(ground.broker_id),
        connect=ground.connectors.to(listener),
    ).register(metrics)
    built.transactions.register_gauges(metrics)
    built.shares.register_gauges(metrics)
