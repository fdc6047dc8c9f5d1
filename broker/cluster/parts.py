"""The layer of the cluster in a broker: its controller, and its view of the cluster's controller.

Job: `Ground`, from which all layers are built, and `build_control`, which builds this one. Nothing
runs yet: `broker.assembly` connects the layers, `broker.server` starts and stops their parts.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from ...protocol.features import RELEASES
from ...replication.controller.config import ControllerConfig
from ...replication.metadata_cache import MetadataCache
from ...storage.log_manager import LogManager
from ..config import KafkaConfig
from ..config.tls_listeners import TlsListeners
from ..observability.metrics import BrokerMetrics
from ..zk.config_store import ConfigStore
from ..zk.finalized_features import FinalizedFeatures
from ..zk.zookeeper_client import ZooKeeperClient
from .broker_connector import BrokerConnectors
from .controller_client import ControllerClient
from .controller_runtime import ControllerRuntime
from .metadata_waits import MetadataWaits
from .topic_config_cache import TopicConfigCache
from .topic_creation import TopicCreator, random_uuid


class Ground(NamedTuple):
    """The results of the start so far: configs, broker id, loaded logs."""

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


class Control(NamedTuple):
    """The controller on this broker, and the clients of the cluster's controller."""

    cache: MetadataCache
    controller: ControllerRuntime
    client: ControllerClient
    creator: TopicCreator
    waits: MetadataWaits


def build_control(ground: Ground, register_broker: Callable[[], Awaitable[None]]) -> Control:
    """`register_broker` is called anew after each lost session."""
    config = ground.config
    cache = MetadataCache(ground.broker_id, ground.cluster_id)
    listener = config.control_plane_listener
    connect = ground.connectors.to(listener)
    return Control(
        cache=cache,
        controller=ControllerRuntime(
            ground.zookeeper,
            _controller_config(config, ground.broker_id),
            clock=ground.clock,
            wall=ground.logs.wall,
            new_topic_id=partial(random_uuid, random.SystemRandom()),
            register=register_broker,
            listener=listener,
            connect=connect,
        ),
        client=ControllerClient(
            ground.broker_id,
            cache,
            listener,
            connect=connect,
            request_timeout_ms=config.get_int("controller.socket.timeout.ms"),
        ),
        creator=TopicCreator(config, cache, ground.zookeeper, random.Random()),
        waits=MetadataWaits(cache),
    )


def _controller_config(config: KafkaConfig, broker_id: int) -> ControllerConfig:
    return ControllerConfig(
        broker_id=broker_id,
        inter_broker_listener=config.inter_broker_listener,
        delete_topic_enable=config.get_boolean("delete.topic.enable"),
        unclean_leader_election_enable=config.get_boolean("unclean.leader.election.enable"),
        auto_leader_rebalance_enable=config.get_boolean("auto.leader.rebalance.enable"),
        leader_imbalance_per_broker_percentage=config.get_int(
            "leader.imbalance.per.broker.percentage"
        ),
        leader_imbalance_check_interval_ms=1000
        * config.get_int("leader.imbalance.check.interval.seconds"),
        protocol=config.inter_broker_protocol,
        features=RELEASES[config.get_string("pybroker.features")],
    )
