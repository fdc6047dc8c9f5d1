"""Pieces of a broker's start: its id, the replicas it hosts, its listeners.

Mirrors parts of `KafkaServer.startup`.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ..protocol.features import NOTHING_SUPPORTED, SUPPORTED
from ..replication.controller.znodes import BrokerRegistration
from ..replication.metadata_cache import Endpoint
from ..storage.checkpoints import read_meta_properties
from ..storage.files import Files
from ..storage.log_directory import parse_future_name, parse_partition_name
from ..storage.log_manager import LogManagerConfig
from .config import ConfigError, KafkaConfig
from .config.tls_listeners import TlsListeners
from .network.acceptor import plain_address
from .network.connection_quotas import ConnectionQuotas
from .network.listener_security import OPEN, ListenerSecurity
from .network.receive_buffer import DEFAULT_MEMORY_BYTES, UNLIMITED_BYTES
from .network.socket_server import ListenerSpec, SocketSettings
from .quotas.connection_rates import ConnectionRates
from .quotas.windows import Windows
from .resources.descriptors import SPARE_DESCRIPTORS, descriptor_limit
from .security.acl_authorizer import AclAuthorizer
from .security.delegation_tokens import DelegationTokens
from .security.principal import parse_principals

if TYPE_CHECKING:
    from .security.tls.server_tls import ServerTls

logger = logging.getLogger("pybroker.broker.server")

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def stored_broker_id(files: Files, log_dirs: Iterable[str]) -> int:
    """The id that meta.properties of an earlier run names; -1 if there is none.

    A damaged file is reported when its directory is opened.
    """
    found = set()
    for path in log_dirs:
        if files.is_directory(path):
            try:
                meta = read_meta_properties(files, path)
            except OSError:
                continue
            if meta is not None and meta.broker_id is not None:
                found.add(meta.broker_id)
    if len(found) > 1:
        raise ConfigError(
            f"the directories of log.dirs belong to different brokers {sorted(found)}: "
            "give each broker its own log.dirs"
        )
    return found.pop() if found else -1


def hosted_topics(files: Files, log_dirs: Iterable[str]) -> list[str]:
    """The topics with partitions in the log directories."""
    topics = set()
    for path in log_dirs:
        if files.is_directory(path):
            for name in files.list_directory(path):
                key = parse_future_name(name) or parse_partition_name(name)
                if key is not None and files.is_directory(os.path.join(path, name)):
                    topics.add(key[0])
    return sorted(topics)


def socket_settings(config: KafkaConfig) -> SocketSettings:
    return SocketSettings(
        network_threads=config.get_int("num.network.threads"),
        backlog=config.get_int("socket.listen.backlog.size"),
        send_buffer=_buffer_size(config, "socket.send.buffer.bytes"),
        receive_buffer=_buffer_size(config, "socket.receive.buffer.bytes"),
        max_frame_bytes=config.get_int("socket.request.max.bytes"),
        max_idle_ms=config.get_int("connections.max.idle.ms"),
        queued_requests=config.get_int("queued.max.requests"),
        queued_bytes=config.get_int("queued.max.request.bytes"),
        receive_memory_bytes=_receive_memory_bytes(config),
    )


def _receive_memory_bytes(config: KafkaConfig) -> int:
    """The limit; none if queued.max.request.bytes is set, which then has Kafka's meaning."""
    if config.is_set("queued.max.request.bytes"):
        return UNLIMITED_BYTES
    return max(DEFAULT_MEMORY_BYTES, 2 * config.get_int("socket.request.max.bytes"))


def _buffer_size(config: KafkaConfig, name: str) -> int | None:
    """Only a set value: Kafka's default of 100 KiB would disable the kernel's autotuning."""
    value = config.get_int(name)
    return value if config.is_set(name) and value > 0 else None


def storage_files() -> Files:
    files = Files()
    files.keep_spare_descriptors(SPARE_DESCRIPTORS, descriptor_limit())
    return files


def connection_quotas(config: KafkaConfig) -> ConnectionQuotas:
    """The limits on connections, and on new connections a second."""
    return ConnectionQuotas(
        descriptors=descriptor_limit(),
        max_connections=config.get_int("max.connections"),
        max_per_ip=config.get_int("max.connections.per.ip"),
        max_per_ip_overrides=connections_by_address(config),
        max_by_listener=by_listener(config, "max.connections"),
        rates=ConnectionRates(
            config.get_int("max.connection.creation.rate"),
            by_listener(config, "max.connection.creation.rate"),
            quota_windows(config)[0],
        ),
        inter_broker_listener=config.inter_broker_listener,
    )


def connections_by_address(config: KafkaConfig) -> dict[str, int]:
    """`max.connections.per.ip.overrides` with the addresses of the hosts; this may ask the DNS."""
    limits: dict[str, int] = {}
    for host, limit in config.max_connections_per_ip_overrides.items():
        try:
            found = socket.getaddrinfo(host or "localhost", None)
        except (OSError, UnicodeError):
            logger.error("max.connections.per.ip.overrides: the host %s is not known", host)
            continue
        limits.update((plain_address(str(address[0])), limit) for *_, address in found)
    return limits


def address_of(host: str) -> str:
    """The address of a host as its connections show it; OSError if the name is unknown."""
    found = socket.getaddrinfo(host, None)
    preferred = [address for family, *_, address in found if family == socket.AF_INET]
    return plain_address(str((preferred or [found[0][-1]])[0][0]))


def by_listener(config: KafkaConfig, name: str) -> dict[str, int]:
    """The limit of each listener: its own, else the common one."""
    return {
        listener.name: int(config.of_listener(listener.name, name)) for listener in config.listeners
    }


def listener_specs(config: KafkaConfig, tls: TlsListeners) -> list[ListenerSpec]:
    return [
        ListenerSpec(
            listener.name,
            listener.security_protocol,
            listener.host or None,
            listener.port,
            listener_security(tls.of(listener.name)),
        )
        for listener in config.listeners
    ]


def listener_security(tls: ServerTls | None) -> ListenerSecurity:
    """The handshake that a new connection of this listener begins with."""
    if tls is None:
        return OPEN
    from .network.tls_connection import TlsConnection

    return ListenerSecurity(new_connection=partial(TlsConnection, tls))


def registration(
    config: KafkaConfig, broker_id: int, bound_ports: Mapping[str, int]
) -> BrokerRegistration:
    """The content of /brokers/ids/<id> for this broker."""
    return BrokerRegistration(
        broker_id=broker_id,
        endpoints=tuple(
            Endpoint(listener.name, listener.security_protocol, listener.host, listener.port)
            for listener in config.advertised_listeners(bound_ports)
        ),
        rack=config.get_optional_string("broker.rack"),
        features=SUPPORTED if config.inter_broker_protocol.has_features else NOTHING_SUPPORTED,
    )


def log_manager_config(config: KafkaConfig) -> LogManagerConfig:
    """The part of the configuration that the log manager works by."""
    return LogManagerConfig(
        flush_offset_checkpoint_interval_ms=config.get_int(
            "log.flush.offset.checkpoint.interval.ms"
        ),
        flush_start_offset_checkpoint_interval_ms=config.get_int(
            "log.flush.start.offset.checkpoint.interval.ms"
        ),
        high_watermark_checkpoint_interval_ms=config.get_int(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        retention_check_interval_ms=config.get_int("log.retention.check.interval.ms"),
        producer_id_expiration_ms=config.get_int("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms=config.get_int(
            "producer.id.expiration.check.interval.ms"
        ),
        producer_ids_of_log=config.get_int("pybroker.producer.ids.per.partition"),
        producer_ids=config.get_int("pybroker.producer.ids"),
        initial_task_delay_ms=config.get_int("log.initial.task.delay.ms"),
        validate_fully=config.get_string("record.validation") == "full",
    )


def quota_windows(config: KafkaConfig) -> tuple[Windows, Windows]:
    """The windows for measuring clients, and the windows for their mutations of topics."""
    clients = Windows(
        config.get_int("quota.window.num"),
        1000 * config.get_int("quota.window.size.seconds"),
    )
    mutations = Windows(
        config.get_int("controller.quota.window.num"),
        1000 * config.get_int("controller.quota.window.size.seconds"),
    )
    return clients, mutations


def delegation_tokens(config: KafkaConfig) -> DelegationTokens:
    """The tokens, with the secret that all brokers share, under its present name or its old one."""
    names = ("delegation.token.secret.key", "delegation.token.master.key")
    texts = (config.get_optional_string(name) for name in names if config.is_set(name))
    secret = next(texts, None)
    return DelegationTokens(
        None if secret is None else secret.encode(),
        max_lifetime_ms=config.get_int("delegation.token.max.lifetime.ms"),
        expiry_ms=config.get_int("delegation.token.expiry.time.ms"),
    )


def acl_authorizer(config: KafkaConfig) -> AclAuthorizer | None:
    """The authorizer by ACLs; None if every client may do everything."""
    if config.get_optional_string("authorizer.class.name") is None:
        return None
    return AclAuthorizer(
        parse_principals(config.get_optional_string("super.users") or ""),
        allow_if_no_acl_found=config.get_boolean("allow.everyone.if.no.acl.found"),
    )
